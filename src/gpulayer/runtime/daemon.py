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

import gc
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

LOG_LIMIT_BYTES = 1 << 20
"""A daemon's log is set aside (`.1`) at a start that finds it larger."""

GARBAGE_OBJECTS = 20_000
"""A daemon makes few cycles; looking for them ever again takes a tenth of its start."""

_KEPT = frozenset(
    "HOME PATH USER LOGNAME LANG TZ TMPDIR LD_LIBRARY_PATH DYLD_LIBRARY_PATH "
    "DYLD_FALLBACK_LIBRARY_PATH GPULAYER_HOME GPULAYER_CRASH_AT GPULAYER_IDLE_SECONDS "
    "GPULAYER_ENGINE REGISTRY_AUTH_FILE".split()
)
_KEPT_PREFIXES = ("LC_", "XDG_", "DOCKER_", "CONTAINER")

_SAID = "GPULAYER_SAID"

_CODE = (
    "import sys; sys.path.insert(0, {root!r}); from gpulayer.runtime import daemon; "
    "daemon.{act}; from {module} import main; main()"
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
    """Start `module.main()` as a daemon; returns once it has left this process's family. Raises
    OSError where nothing was started."""
    begin(module, argv, log=log, fds=fds, site=site, environ=environ)()


def begin(
    module: str,
    argv: Sequence[str],
    *,
    log: str,
    fds: Sequence[int] = (),
    site: bool = True,
    environ: Mapping[str, str] | None = None,
) -> Callable[[], object]:
    """The same without waiting: call the answer when there is time, to see it leave the family.

    `fds` arrive as descriptors 3, 4, ... in that order. `site=False`: the standard library alone
    (faster to start). Safe in a process with threads.
    """
    # Not os.posix_spawn: with default actions asked for, glibc leaves signals 32 and 33 ignored,
    # and every job would inherit that.
    import subprocess

    code = _code(module, f"become({list(fds)})")
    flags = ["-I"] if site else ["-I", "-S"]
    sink = _open_log(log)
    try:
        return subprocess.Popen(
            [sys.executable, *flags, "-c", code, *argv],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=_environment(os.environ if environ is None else environ),
            pass_fds=fds,
            start_new_session=True,
        ).wait
    finally:
        os.close(sink)


def stay(module: str, argv: Sequence[str], said: str = "", fds: Sequence[int] = ()) -> NoReturn:
    """Turn this very process into `module.main()`: in its terminal, under its pid, and otherwise
    as clean as a daemon. Whoever looks for our processes finds it as one.

    `said` is for `heard`, and not among the arguments, which everybody on the machine can read.
    `fds` arrive as descriptors 3, 4, ... in that order.
    """
    code = _code(module, f"settle({list(fds)})")
    for fd in fds:
        os.set_inheritable(fd, True)
    sys.stdout.flush()
    sys.stderr.flush()
    words = [sys.executable, "-I", "-c", code, *argv]
    os.execve(sys.executable, words, {**_environment(os.environ), _SAID: said})


def heard() -> str:
    """What was said to `stay`. Once: no child inherits it."""
    return os.environ.pop(_SAID, "")


def settle(fds: Sequence[int]) -> None:
    """First act of one that stays in its terminal."""
    os.chdir("/")
    os.umask(0o077)
    _arrange(fds)
    _close_from(3 + len(fds))
    _raise_limits()


def become(fds: Sequence[int]) -> None:
    """First act of a daemon: leave the family, keep descriptors 0 to 2, move `fds` behind them."""
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    _reset_signals()
    _arrange(fds)
    _close_from(3 + len(fds))
    _raise_limits()
    gc.set_threshold(GARBAGE_OBJECTS, 20, 20)


def _code(module: str, act: str) -> str:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return _CODE.format(root=root, module=module, act=act)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def _open_log(path: str) -> int:
    """The log, opened to append, an overgrown one set aside; nowhere, if the folder is gone."""
    try:
        if os.path.getsize(path) > LOG_LIMIT_BYTES:
            os.replace(path, path + ".1")
    except OSError:
        pass
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _reset_signals() -> None:
    """A terminal's `nohup` or a script's `&` left some ignored; SIGPIPE and SIGXFSZ are Python's
    own affair, which it needs ignored."""
    for signum in signal.valid_signals():
        if signal.getsignal(signum) == signal.SIG_IGN and signum not in _PYTHONS_OWN:
            signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _arrange(fds: Sequence[int]) -> None:
    """Descriptors 3, 4, ... in order. Copied above all targets first, which may be sources."""
    import fcntl

    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + len(fds)) for fd in fds]
    for at, copy in enumerate(copies):
        os.dup2(copy, 3 + at, inheritable=False)


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


_PYTHONS_OWN = (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE))
