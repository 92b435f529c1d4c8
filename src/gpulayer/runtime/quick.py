"""The quick way to a job: a child that shares our memory until its exec (vfork(2)).

Nothing is copied and no Python runs in the child: 0.8 ms against 1.6. In a process with one thread
the folder, the cgroup and some soft limits are ours to change around the call. What can't be put
back (priorities, hard limits, ignored signals, a terminal's foreground) takes the long way,
`gpulayer.runtime.spawn`; so does what may hang, since the parent waits for the exec; and the first
start after a while, for which the way through its cgroup takes longer (see `inside`).

`_posixsubprocess` is what `subprocess` itself calls; its arguments are those of CPython 3.11 on,
and older ones take the long way. Not `os.posix_spawn`: glibc leaves signals 32 and 33 ignored
there, which a shell would not.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
import time
from importlib import import_module

from gpulayer.runtime import spawn
from gpulayer.runtime.mounts import Mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from gpulayer.runtime.cgroup import Leaf
    from gpulayer.runtime.spawn import Launch

_IS_KNOWN = sys.implementation.name == "cpython" and (3, 11) <= sys.version_info[:2] <= (3, 14)
_fork_exec: Any = import_module("_posixsubprocess").fork_exec if _IS_KNOWN else None

BUSY_SECONDS = 0.02
"""After so long without a start, a move into a cgroup waits longer than the long way takes."""

_MOVABLE = ("NOFILE", "CORE", "STACK", "MEMLOCK", "SIGPENDING", "MSGQUEUE")
"""Soft limits that can be other than ours for an instant without harm to us."""


class Quick:
    """`home` is the list of processes (`cgroup.procs`) of our own cgroup, or -1."""

    def __init__(self, home: int) -> None:
        self._home = home
        self._root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._limits = dict(_own_limits())
        """As at our start: nothing changes them but a spawn, which puts them back."""
        self.mounts = Mounts()
        self._asked_at = 0.0

    def suits(self, launch: Launch, leaf: Leaf | None) -> bool:
        before, self._asked_at = self._asked_at, time.monotonic()
        return (
            _IS_KNOWN
            and (leaf is None or self._asked_at < before + BUSY_SECONDS)
            and launch.controls < 0
            and not launch.ignored
            and (leaf is None or self._home >= 0)
            and launch.nice in (None, os.getpriority(os.PRIO_PROCESS, 0))
            and (not launch.affinity or set(launch.affinity) == _own_cpus())
            and self._can_limit(launch)
            and not any(map(self.mounts.may_hang, _places(launch)))
        )

    def spawn(self, launch: Launch, leaf: Leaf | None) -> int:
        """The leader, past its exec. SpawnError where it could not become the job."""
        try:
            if leaf is not None:
                leaf.join()
            spawn.enter_folder(launch)
            return self._spawn(launch, *spawn.resolve(launch))
        finally:
            if leaf is not None:
                os.write(self._home, b"0")
            os.fchdir(self._root)

    def close(self) -> None:
        os.close(self._root)
        if self._home >= 0:
            os.close(self._home)

    def _spawn(self, launch: Launch, path: bytes, argv: list[bytes]) -> int:
        try:
            return self._exec(launch, path, argv)
        except OSError as error:
            script = spawn.as_script(path, argv) if error.errno == errno.ENOEXEC else None
            if script is None:
                raise spawn.exec_error(argv[0], error) from error
            return self._exec(launch, *script)

    def _exec(self, launch: Launch, path: bytes, argv: list[bytes]) -> int:
        reader, writer = os.pipe()
        limits = self._limit(launch)  # nothing can be opened from here on: the limit may be low
        try:
            pid = _start(launch, path, argv, reader, writer)
        finally:
            for number, pair in limits:
                resource.setrlimit(number, pair)
            os.close(writer)
            failure = os.read(reader, 256)
            os.close(reader)
        if failure:
            os.waitpid(pid, 0)
            number = int(failure.split(b":")[1], 16)  # "OSError:<errno in hex>:<where>"
            raise OSError(number, os.strerror(number))
        return pid

    def _can_limit(self, launch: Launch) -> bool:
        return all(
            name in _MOVABLE and hard == self._limits[name][1][1]
            for name, (_, hard) in self._others(launch)
        )

    def _limit(self, launch: Launch) -> list[tuple[int, tuple[int, int]]]:
        """Takes the job's limits and returns ours."""
        before = []
        for name, wanted in self._others(launch):
            before.append(self._limits[name])
            resource.setrlimit(self._limits[name][0], wanted)
        return before

    def _others(self, launch: Launch) -> Iterator[tuple[str, tuple[int, int]]]:
        """Limits of the job's that are not ours."""
        for name, (soft, hard) in launch.rlimits.items():
            own = self._limits.get(name)
            if own is not None and own[1] != (soft, hard):
                yield name, (soft, hard)


def _start(launch: Launch, path: bytes, argv: list[bytes], reader: int, writer: int) -> int:
    """What `subprocess` does after all its checks."""
    nobody = (-1, None, None, None)  # process group, group, groups, user
    umask = -1 if launch.umask is None else launch.umask
    pid: int = _fork_exec(
        argv, (path,), False, (), None, launch.environ,
        launch.stdin, -1, -1, launch.stdout, -1, launch.stderr, reader, writer,
        False, True, *nobody, umask, None, True,
    )  # fmt: skip
    return pid


def _own_limits() -> Iterator[tuple[str, tuple[int, tuple[int, int]]]]:
    """Name -> number, (soft, hard)."""
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            number = getattr(resource, name)
            yield name.removeprefix("RLIMIT_"), (number, resource.getrlimit(number))


def _own_cpus() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()


def _places(launch: Launch) -> Iterator[bytes]:
    """What is looked at on the way to the exec."""
    yield launch.cwd
    if b"/" in launch.argv[0]:
        yield launch.argv[0]
    else:
        yield from spawn.search_path(launch.environ)
