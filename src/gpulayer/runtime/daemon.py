"""Starting a process of our own that outlives whoever starts it.

Plane, agent and supervisor are siblings below init: each is spawned into a session of its own and
forks once more, so that nobody's death orphans or ends another. A daemon starts from nothing of
its starter's: no descriptor but those it is given, all signals at their defaults, folder `/`,
umask 077, soft limits at their hard ones (a terminal's `ulimit -t` is not ours), and only the
variables below. A job's world reaches a job through its envelope, never through a daemon.

    launch("gpulayer.runtime.supervisor", [home, ...], log=path)

`main()` of that module finds its arguments in `sys.argv[1:]`. Stdlib only.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LOG_LIMIT_BYTES = 1 << 20
"""A daemon's log is set aside (`.1`) at a start that finds it larger."""

_KEPT = frozenset(
    "HOME PATH USER LOGNAME LANG TZ TMPDIR LD_LIBRARY_PATH DYLD_LIBRARY_PATH "
    "DYLD_FALLBACK_LIBRARY_PATH GPULAYER_HOME GPULAYER_CRASH_AT GPULAYER_IDLE_SECONDS".split()
)
_KEPT_PREFIXES = ("LC_", "XDG_")

_CODE = (
    "import sys; sys.path.insert(0, {root!r}); from gpulayer.runtime import daemon; "
    "daemon.become({fds}); from {module} import main; main()"
)


def launch(
    module: str,
    argv: Sequence[str],
    *,
    log: str,
    fds: Sequence[int] = (),
    site: bool = True,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Start `module.main()` as a daemon; returns once it has left this process's family.

    `fds` arrive as descriptors 3, 4, ... in that order. `site=False`: the standard library alone
    (faster to start). Safe in a process with threads. Raises OSError where nothing was started.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = _CODE.format(root=root, module=module, fds=len(fds))
    flags = ["-I"] if site else ["-I", "-S"]
    command = [sys.executable, *flags, "-c", code, *argv]
    copies: list[int] = []
    try:
        # Moved out of the way first: the targets 3, 4, ... may be among the sources.
        copies = [_copy_above(fd, 3 + len(fds)) for fd in fds]
        moves = [(os.POSIX_SPAWN_DUP2, copy, 3 + at) for at, copy in enumerate(copies)]
        quiet = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
            (os.POSIX_SPAWN_OPEN, 1, _open_log(log), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        pid = os.posix_spawn(
            sys.executable,
            command,
            _environment(os.environ if environ is None else environ),
            file_actions=[*moves, *quiet],
            setsid=True,
            setsigmask=(),
            setsigdef=[s for s in signal.valid_signals() if s not in (_KILL, _STOP)],
        )
    finally:
        for copy in copies:
            os.close(copy)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # a program that ignores SIGCHLD, or reaps all, has done it


def become(fds: int) -> None:
    """First act of a daemon: leave the family, keep descriptors 0 to 2 and the `fds` after them."""
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    _close_from(3 + fds)
    _raise_limits()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def _open_log(path: str) -> str:
    """Sets an overgrown log aside; the path to write to (nowhere, if the folder is gone)."""
    try:
        if os.path.getsize(path) > LOG_LIMIT_BYTES:
            os.replace(path, path + ".1")
    except OSError:
        pass
    return path if os.path.isdir(os.path.dirname(path)) else os.devnull


def _copy_above(fd: int, lowest: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)


def _close_from(lowest: int) -> None:
    try:
        open_now = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        os.closerange(lowest, 4096)
        return
    for fd in open_now:
        if fd >= lowest:
            try:
                os.close(fd)
            except OSError:
                pass  # the listing's own


def _raise_limits() -> None:
    import resource

    for name in ("NOFILE", "CPU", "FSIZE", "AS", "DATA", "NPROC", "MEMLOCK"):
        limit = getattr(resource, "RLIMIT_" + name, None)
        if limit is None:
            continue
        _, hard = resource.getrlimit(limit)
        try:
            resource.setrlimit(limit, (hard, hard))
        except (OSError, ValueError):
            pass  # macOS caps NOFILE below its own hard limit


_KILL, _STOP = signal.SIGKILL, signal.SIGSTOP
