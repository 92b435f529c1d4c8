"""From fork to exec: a child that becomes the job, in the world of the job's envelope.

Plain code in the child of a process with one thread (research: `Popen` can't set limits in time,
a shell in between loses variables). The child looks for the folder and the command itself, so a
hung file system never holds the supervisor; it says what went wrong over a pipe that closes at
exec (fork(2), execve(2), credentials(7), setrlimit(2)). That the child does all this
makes this longer than others.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import errno
import fcntl
import functools
import json
import os
import resource
import signal
import stat
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, NoReturn

    from gpulayer.runtime.cgroup import Leaf
    from gpulayer.runtime.forking import Forking
# `_signal` beside `signal`: the public calls make an enum of every number, 0.3 ms a fork.

SHELL = b"/bin/sh"
_FIXED = frozenset((int(signal.SIGKILL), int(signal.SIGSTOP)))
_ALL = frozenset(map(int, signal.valid_signals()))
DEFAULT_PATH = b"/usr/local/bin:/usr/bin:/bin"


class Launch:
    """All that the child needs. The descriptors stay the caller's and must be 3 or higher."""

    __slots__ = (
        "affinity", "argv", "argv0", "controls", "cwd", "cwd_id", "environ", "forking",
        "has_container", "ignored", "leads", "nice", "rlimits", "stderr", "stdin", "stdout",
        "umask",
    )  # fmt: skip

    def __init__(
        self, argv: list[bytes], environ: list[bytes], cwd: bytes, envelope: dict[str, Any]
    ) -> None:
        self.argv = argv
        self.argv0 = argv[0]
        self.environ = environ
        self.cwd = cwd
        self.cwd_id: tuple[int, int] | None = None
        """Device and inode that the folder must still have."""
        self.umask: int | None = envelope.get("umask")
        self.rlimits: dict[str, list[int]] = envelope.get("rlimits") or {}
        self.nice: int | None = envelope.get("nice")
        self.affinity: list[int] = envelope.get("affinity") or []
        self.ignored: list[int] = envelope.get("ignored_signals") or []
        self.has_container = False
        """Whether it runs one: what is in there is not below it."""
        self.stdin = self.stdout = self.stderr = -1
        self.controls = -1
        """The terminal that the job shall be in the foreground of, or -1 for a session of its own.
        The parent must then lead the session that this terminal controls."""
        self.leads = -1
        """A terminal that shall control the session of its own."""
        self.forking: Forking | None = None
        """How it may be forked from a process that has imported already."""


class SpawnError(Exception):
    """The child could not become the job. `code` is one of `exits.REFUSALS`."""

    def __init__(self, code: str, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.errno = number


def spawn(
    launch: Launch, leaf: Leaf | None, enter: Callable[[], object] | None = None
) -> tuple[int, int]:
    """Forks, into the leaf where there is one, and returns (pid, descriptor). Reading that to its
    end gives nothing once the job's program runs, else what `failure` understands. `enter` is
    called first in the child."""
    reader, writer = os.pipe()
    parent = os.getpid()
    before = block_signals()
    try:
        pid = leaf.fork() if leaf is not None else -1
        is_inside = pid >= 0
        pid = pid if is_inside else os.fork()
        if pid == 0:
            _child(launch, None if is_inside else leaf, enter, parent, writer)
    finally:
        restore_signals(before)
    os.close(writer)
    os.set_blocking(reader, False)
    return pid, reader


def failure(report: bytes) -> SpawnError | None:
    """What the child wrote before it gave up; None where it wrote nothing."""
    if not report:
        return None
    code, message, number = json.loads(report)
    return SpawnError(code, message, number)


def block_signals() -> set[int]:
    """Around a fork: a signal for the parent must not be noted by the child in its name."""
    before: set[int] = _signal.pthread_sigmask(_signal.SIG_SETMASK, _ALL)
    return before


def restore_signals(before: set[int]) -> None:
    _signal.pthread_sigmask(_signal.SIG_SETMASK, before)


def reset_signals(ignored: list[int]) -> None:
    """Default dispositions and an empty mask, as a login shell gives, but for `ignored`."""
    signal.set_wakeup_fd(-1)
    for signum in _ALL:
        if _signal.getsignal(signum) != _signal.SIG_DFL and signum not in _FIXED:
            _signal.signal(signum, _signal.SIG_DFL)
    for number in ignored:
        if number in _ALL and number not in _FIXED:
            _signal.signal(number, _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
"""What a system says of a disk, or a quota, that is full."""


def withstand(signums: Iterable[int]) -> None:
    """Default dispositions, but a handler that does nothing for these. Not ignored: exec keeps
    what is ignored, and resets what is handled."""
    reset_signals([])
    for signum in signums:
        _signal.signal(signum, _do_nothing)


def _child(
    launch: Launch,
    leaf: Leaf | None,
    enter: Callable[[], object] | None,
    parent: int,
    report: int,
) -> NoReturn:
    try:
        if leaf is not None:
            leaf.join()
        if enter is not None:
            enter()
        if os.getppid() != parent:
            os._exit(1)  # killed meanwhile: whoever sweeps the box may already have looked
        _become(launch)
    except SpawnError as error:
        _tell(report, error)
    except OSError as error:
        text = f"the process could not be prepared: {error.strerror}"
        _tell(report, SpawnError("spawn-failed", text, error.errno or 0))
    except BaseException as error:
        _tell(report, SpawnError("spawn-failed", f"the process could not be prepared: {error!r}"))
    finally:
        os._exit(127)


def _become(launch: Launch) -> NoReturn:
    reset_signals(launch.ignored)
    if launch.controls >= 0:
        _take_foreground(launch.controls)
    else:
        own_terminal(launch.leads)
    enter_folder(launch)
    if launch.umask is not None:
        os.umask(launch.umask)
    for source, target in ((launch.stdin, 0), (launch.stdout, 1), (launch.stderr, 2)):
        os.dup2(source, target)
    path, argv = resolve(launch)
    block = Block(launch.environ)
    _set_priorities(launch)
    _set_limits(launch.rlimits)  # last: a low limit must hit the job, not what comes before it
    try:
        os.execve(path, argv, block)  # type: ignore[arg-type]
    except OSError as error:
        script = as_script(path, argv) if error.errno == errno.ENOEXEC else None
        if script is not None:
            os.execve(*script, block)  # type: ignore[arg-type]
        raise exec_error(argv[0], error) from error


def _take_foreground(terminal: int) -> None:
    os.setpgid(0, 0)
    _signal.signal(signal.SIGTTOU, _signal.SIG_IGN)
    os.tcsetpgrp(terminal, os.getpid())
    _signal.signal(signal.SIGTTOU, _signal.SIG_DFL)


def enter_folder(launch: Launch) -> None:
    where = os.fsdecode(launch.cwd)
    try:
        folder = os.open(launch.cwd, getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC)
        found = os.fstat(folder)
        if found.st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if launch.cwd_id is not None and launch.cwd_id != (found.st_dev, found.st_ino):
            raise SpawnError("folder-gone", f"the folder was replaced: {where}")
        os.fchdir(folder)
        os.close(folder)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SpawnError("folder-gone", f"the folder is gone: {where}", errno.ENOENT) from error
    except OSError as error:
        text = f"the folder can't be entered: {where}: {error.strerror}"
        raise SpawnError("spawn-failed", text, error.errno or 0) from error


def resolve(launch: Launch) -> tuple[bytes, list[bytes]]:
    """The file to execute, found as a shell finds it: with the job's PATH, in the job's folder."""
    name = launch.argv[0]
    argv = [launch.argv0, *launch.argv[1:]]
    if b"/" in name:
        return name, argv
    refused = None
    for candidate in _candidates(name, launch.environ):
        if not os.access(candidate, os.F_OK):  # mostly: an exception would cost ten times that
            continue
        try:
            is_file = stat.S_ISREG(os.stat(candidate).st_mode)
        except OSError:
            continue
        if is_file and os.access(candidate, os.X_OK):
            return candidate, argv
        refused = refused or candidate
    if refused is not None:
        text = f"{os.fsdecode(refused)} is not executable"
        raise SpawnError("not-executable", text, errno.EACCES)
    raise SpawnError("not-found", f"command not found: {os.fsdecode(name)}", errno.ENOENT)


def _candidates(name: bytes, environ: list[bytes]) -> Iterator[bytes]:
    if name:
        for folder in search_path(environ):
            yield folder + b"/" + name


def search_path(environ: list[bytes]) -> list[bytes]:
    """The folders of a job's PATH."""
    path = DEFAULT_PATH
    for entry in environ:
        if entry.startswith(b"PATH="):
            path = entry[5:]
            break  # getenv(3) and every shell take the first
    return [folder or b"." for folder in path.split(b":")]


def _set_priorities(launch: Launch) -> None:
    """As near to the terminal's as the kernel lets us: raising needs a right we may lack."""
    if launch.nice is not None:
        _try(lambda: os.setpriority(os.PRIO_PROCESS, 0, launch.nice or 0))
    if launch.affinity and hasattr(os, "sched_setaffinity"):
        _try(lambda: os.sched_setaffinity(0, launch.affinity))


def _set_limits(limits: dict[str, list[int]]) -> None:
    for name, (soft, hard) in limits.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is None:
            continue
        try:
            resource.setrlimit(number, (soft, hard))
        except (ValueError, OSError):
            ours = resource.getrlimit(number)[1]
            within = soft if soft != -1 and (ours == -1 or soft <= ours) else ours
            _try(functools.partial(resource.setrlimit, number, (within, ours)))


def as_script(path: bytes, argv: list[bytes]) -> tuple[bytes, list[bytes]] | None:
    """How a shell runs a script without a first line, which execve(2) refuses; None for what is
    no script but a program for another machine."""
    with open(path, "rb") as file:
        if b"\0" in file.read(256).split(b"\n")[0]:
            return None
    return SHELL, [SHELL, path, *argv[1:]]


def exec_error(name: bytes, error: OSError) -> SpawnError:
    text = f"{os.fsdecode(name)}: {error.strerror}"
    number = error.errno or 0
    if number == errno.ENOENT:
        return SpawnError("not-found", text, number)
    if number in (errno.E2BIG, errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE):
        return SpawnError("spawn-failed", text, number)
    return SpawnError("not-executable", text, number)


class Block:
    """An environment for execve that keeps order and doubles, as the kernel's block does."""

    def __init__(self, entries: list[bytes]) -> None:
        pairs = [entry.partition(b"=") for entry in entries]
        self._pairs = [(name, value) for name, sign, value in pairs if name and sign]

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, name: bytes) -> bytes:
        return dict(self._pairs)[name]

    def keys(self) -> list[bytes]:
        return [name for name, _ in self._pairs]

    def values(self) -> list[bytes]:
        return [value for _, value in self._pairs]


def _do_nothing(signum: int, frame: object) -> None:
    """The call it interrupted fails by itself, with EPIPE or EFBIG."""


def _tell(report: int, error: SpawnError) -> None:
    os.write(report, json.dumps([error.code, str(error), error.errno]).encode("ascii"))


def _try(call: Callable[[], object]) -> None:
    try:
        call()
    except OSError:
        pass


def own_terminal(slave: int) -> None:
    """Makes the calling process the leader of a new session that `slave` controls (tty(4)); of one
    without a terminal, where there is none."""
    os.setsid()
    if slave >= 0:
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
