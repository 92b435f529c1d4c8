"""The quick way to a job: posix_spawn, where the job's world is ours but for what can be put back.

It shares the memory of its parent until exec (vfork(2)), so nothing is copied and no Python runs
in the child: 0.8 ms against 1.6. In a process with one thread the folder, the umask, the cgroup
and some soft limits are ours to change around the call. What can't be put back (priorities, hard
limits, ignored signals, a terminal's foreground) takes the long way, `gpulayer.runtime.spawn`; so
does what may hang, since the parent waits for the exec.
"""

from __future__ import annotations

import errno
import os
import resource
import signal

from gpulayer.runtime import spawn
from gpulayer.runtime.mounts import Mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulayer.runtime.cgroup import Leaf
    from gpulayer.runtime.spawn import Launch

_MOVABLE = ("NOFILE", "CORE", "STACK", "MEMLOCK", "SIGPENDING", "MSGQUEUE")
"""Soft limits that can be other than ours for an instant without harm to us."""

_NOT_DEFAULT = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM,
                signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU]  # fmt: skip
"""Whatever our programs ignore; what they handle is reset by exec itself."""


class Quick:
    """`home` is the list of processes (`cgroup.procs`) of our own cgroup, or -1."""

    def __init__(self, home: int) -> None:
        self._home = home
        self._root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.mounts = Mounts()

    def suits(self, launch: Launch, leaf: Leaf | None) -> bool:
        return (
            launch.controls < 0
            and not launch.ignored
            and (leaf is None or self._home >= 0)
            and launch.nice in (None, os.getpriority(os.PRIO_PROCESS, 0))
            and (not launch.affinity or set(launch.affinity) == _own_cpus())
            and self._can_limit(launch)
            and not any(map(self.mounts.may_hang, _places(launch)))
        )

    def spawn(self, launch: Launch, leaf: Leaf | None) -> int:
        """The leader, past its exec. SpawnError where it could not become the job."""
        umask = os.umask(0o077 if launch.umask is None else launch.umask)
        try:
            if leaf is not None:
                leaf.join()
            spawn.enter_folder(launch)
            return self._spawn(launch, *spawn.resolve(launch))
        finally:
            if leaf is not None:
                os.write(self._home, b"0")
            os.umask(umask)
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
        streams = (launch.stdin, launch.stdout, launch.stderr)
        limits = self._limit(launch)  # nothing can be opened from here on: the limit may be low
        try:
            return os.posix_spawn(
                path,
                argv,
                spawn.Block(launch.environ),  # type: ignore[arg-type]
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate(streams)
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=_NOT_DEFAULT,
            )
        finally:
            for number, pair in limits:
                resource.setrlimit(number, pair)

    def _can_limit(self, launch: Launch) -> bool:
        for number, soft, hard, name in _limits(launch):
            own_soft, own_hard = resource.getrlimit(number)
            if hard != own_hard or (soft != own_soft and name not in _MOVABLE):
                return False
        return True

    def _limit(self, launch: Launch) -> list[tuple[int, tuple[int, int]]]:
        """Takes the job's limits and returns ours."""
        before = []
        for number, soft, hard, _ in _limits(launch):
            own = resource.getrlimit(number)
            if own != (soft, hard):
                before.append((number, own))
                resource.setrlimit(number, (soft, hard))
        return before


def _limits(launch: Launch) -> Iterator[tuple[int, int, int, str]]:
    for name, (soft, hard) in launch.rlimits.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None:
            yield number, soft, hard, name


def _own_cpus() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()


def _places(launch: Launch) -> Iterator[bytes]:
    """What is looked at on the way to the exec."""
    yield launch.cwd
    if b"/" in launch.argv[0]:
        yield launch.argv[0]
    else:
        yield from spawn.search_path(launch.environ)
