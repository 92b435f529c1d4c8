"""What a job on this machine must see: the terminal's world, captured and compared.

`capture` makes the envelope: environment, folder, umask, limits, nice, affinity, the signals that
are ignored on purpose, and the Python that is meant. It travels beside the spec over the private
socket and starts a process from nothing of the supervisor's own. What it cannot carry (user,
groups, namespaces, root folder) is compared instead (`sdk.identity`), and a difference is
refused: a job never runs quietly in another world. Longer than most: a world is worth nothing
before the supervisor that starts the job has it, and both are written here.

The command line reads the environment as it was when its process began, since its own Python may
have changed it (PEP 538); a program gives it as it is now, as `subprocess.run` would.
"""

from __future__ import annotations

import os
import resource
import select
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from gpulayer.sdk import interpreter
from gpulayer.sdk.identity import require_same
from gpulayer.sdk.places import Places
from gpulayer.sdk.streams import fill_closed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpulayer.runtime.frames import Connection

NOT_TAKEN_OVER = frozenset(
    "GPULAYER_JOB_ID GPULAYER_ATTEMPT GPULAYER_INPUT_DIR GPULAYER_OUTPUT_DIR GPULAYER_WORKSPACE "
    "GPULAYER_METRICS_FILE "
    "UV_RUN_RECURSION_DEPTH __PYVENV_LAUNCHER__ LISTEN_FDS LISTEN_PID LISTEN_FDNAMES "
    "NOTIFY_SOCKET WATCHDOG_PID WATCHDOG_USEC".split()
)
"""Variables that speak of the client's own process or of an outer job."""

_PYTHONS_OWN = frozenset((signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)))
"""Signals that Python itself ignores from its start, so that nobody chose to."""


class World:
    """One capture. `close` when the folder's descriptor is no longer needed."""

    __slots__ = ("envelope", "environ", "folder_fd", "interpreter", "line")

    def __init__(
        self,
        envelope: dict[str, Any],
        environ: dict[str, str],
        chosen: interpreter.Interpreter,
        line: list[str],
        folder_fd: int,
    ) -> None:
        self.envelope = envelope
        """JSON form, as the supervisor takes it."""
        self.environ = environ
        """The job's environment as a mapping."""
        self.interpreter = chosen
        self.line = line
        """The argv to run: as given, with `python` spelt out where only `python3` exists."""
        self.folder_fd = folder_fd
        """The open folder, or -1 where it could not be opened."""

    @property
    def visible_gpus(self) -> list[str] | None:
        """What the terminal's `CUDA_VISIBLE_DEVICES` restricts a job to; None: no restriction."""
        text = self.environ.get("CUDA_VISIBLE_DEVICES")
        return None if text is None else [word.strip() for word in text.split(",") if word.strip()]

    @property
    def parent_job(self) -> str | None:
        """The job that this process runs in, if any."""
        return os.environ.get("GPULAYER_JOB_ID") or None

    def close(self) -> None:
        if self.folder_fd >= 0:
            os.close(self.folder_fd)
            self.folder_fd = -1


def of_terminal(argv: Sequence[str], client: interpreter.Client | None = None) -> World:
    """The world of a line typed in a terminal; for the command line. Closed standard streams are
    filled first: else the folder's descriptor would become one of them."""
    fill_closed()
    entries = original_environment()
    folder, folder_fd = _folder(_mapping(entries))
    chosen = interpreter.for_line(argv, _mapping(entries), folder, client)
    return _world(entries, folder, folder_fd, chosen, argv)


def of_program(argv: Sequence[str] = (), client: interpreter.Client | None = None) -> World:
    """The world of the running program, as it has made it; for the SDK."""
    entries = [f"{os.fsdecode(k)}={os.fsdecode(v)}" for k, v in os.environb.items()]
    folder, folder_fd = _folder({})
    chosen = interpreter.for_program(_mapping(entries), folder, client)
    return _world(entries, folder, folder_fd, chosen, argv)


def original_environment() -> list[str]:
    """The environment block of this process's start, undecodable bytes kept (proc_pid_environ(5)).

    Where there is no /proc: the present one, less the `LC_CTYPE` that Python may have set.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            block = file.read()
    except OSError:
        return [
            f"{os.fsdecode(key)}={os.fsdecode(value)}"
            for key, value in os.environb.items()
            if (key, value) != (b"LC_CTYPE", b"C.UTF-8")
        ]
    return [os.fsdecode(entry) for entry in block.split(b"\0") if entry]


def connect_supervisor(places: Places, *, wait_seconds: float = 10.0) -> Connection:
    """A greeted connection to the supervisor of this world.

    While a plane starts, its supervisor's socket may not be there yet: waited for. Where somebody
    has stopped both, a plane is started again. Raises `plane-unreachable` when it does not come,
    `wrong-world` when it is another machine's.
    """
    from gpulayer._version import __version__
    from gpulayer.runtime import frames
    from gpulayer.sdk.local import start
    from gpulayer.sdk.seat import is_held
    from gpulayer.sdk.waiting import connect_when_there, unreachable

    def start_again() -> None:
        if not is_held(places.plane_lock):  # else its holder, embedded perhaps, sees to it
            start(places)

    def greet() -> tuple[Connection, dict[str, Any]]:
        connection = frames.connect(places.supervisor_socket, timeout=wait_seconds)
        try:
            return connection, connection.greet("client", __version__, timeout=wait_seconds)
        except TimeoutError as error:
            connection.close()
            message = f"the supervisor took the call and says nothing for {wait_seconds:.0f} s"
            raise unreachable(message, places.supervisor_socket, "it may be stopped") from error
        except EOFError as error:
            connection.close()
            raise ConnectionResetError("it ended") from error
        except BaseException:
            connection.close()
            raise

    connection, hello = connect_when_there(
        greet,
        wait_seconds,
        "the supervisor",
        places.supervisor_socket,
        on_nobody=start_again,
    )
    try:
        require_same(hello.get("world", {}))
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def given(places: Places, world: World) -> Iterator[str]:
    """The id of the envelope, which the supervisor has for the submission that is made within, and
    for the job then, also as a private file. Safe to repeat: equal worlds have equal ids."""
    supervisor, envelope_id = give_envelope(places, world)
    try:
        yield envelope_id
        if not has_envelope(supervisor, envelope_id):
            supervisor.close()
            supervisor, _ = give_envelope(places, world)
    finally:
        supervisor.close()


def give_envelope(places: Places, world: World) -> tuple[Connection, str]:
    """A connection to the supervisor and the id of the envelope, which it keeps as long as that
    is open, whatever jobs there are, and until the jobs end that need it."""
    fds = {"cwd": world.folder_fd} if world.folder_fd >= 0 else None
    supervisor, reply = asked(places, "envelope", fds, envelope=world.envelope, keep=True)
    return supervisor, str(reply["envelope_id"])


def has_envelope(supervisor: Connection, envelope_id: str) -> bool:
    """Whether it has that envelope, which it is told is needed. It may have ended meanwhile (by
    `gpulayer stop`, at that instant), or may have been told before that no job needs it."""
    from gpulayer.runtime.frames import Refused

    try:
        supervisor.call("envelope", envelope_id=envelope_id)
    except (Refused, EOFError, OSError):
        return False
    return True


def has_ended(supervisor: Connection) -> bool:
    """Of one from which nothing is expected, so that a readable socket is an ended one."""
    poll = select.poll()
    poll.register(supervisor, select.POLLIN)
    return bool(poll.poll(0))


def asked(
    places: Places, op: str, fds: Mapping[str, int] | None = None, **fields: Any
) -> tuple[Connection, dict[str, Any]]:
    """A connection to the supervisor, and its answer. One that was about to leave has not taken
    the question, and the next one is asked. Raises what `connect_supervisor` and `ask` do."""
    from gpulayer.errors import UnreachableError

    for last in (False,) * 4 + (True,):
        supervisor = connect_supervisor(places)
        try:
            return supervisor, ask(supervisor, op, fds, **fields)
        except UnreachableError:
            supervisor.close()
            if last:
                raise
        except BaseException:
            supervisor.close()
            raise
    raise AssertionError("the last one raises")


def ask(
    supervisor: Connection, op: str, fds: Mapping[str, int] | None = None, **fields: Any
) -> dict[str, Any]:
    """One question. Raises `plane-unreachable` when the supervisor ends before it answers,
    `disk-full`, and `internal` with its words when it refuses for another reason."""
    from gpulayer.errors import GPULayerError, StorageError
    from gpulayer.runtime import frames
    from gpulayer.sdk.waiting import unreachable

    try:
        return supervisor.call(op, fds=fds, **fields)
    except (EOFError, OSError) as error:
        raise unreachable("the supervisor went away", "", str(error)) from error
    except frames.Refused as error:
        if error.code == "disk-full":
            raise StorageError(
                "disk-full",
                "The disk is full, so nothing was accepted.",
                why=str(error),
                hint="gpulayer gc --dry-run",
            ) from error
        raise GPULayerError("internal", f"the supervisor refused: {error}") from error


def _world(
    entries: list[str],
    folder: str,
    folder_fd: int,
    chosen: interpreter.Interpreter,
    argv: Sequence[str],
) -> World:
    entries = _edited(entries, chosen)
    environ = _mapping(entries)
    device, inode = _identity_of(folder_fd)
    envelope = {
        "environ": entries,
        "cwd": folder,
        "cwd_dev": device,
        "cwd_ino": inode,
        "umask": _umask(),
        "rlimits": _limits(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "affinity": _affinity(),
        "ignored_signals": _ignored(),
        "interpreter": chosen.to_json(),
    }
    return World(envelope, environ, chosen, chosen.line(argv, environ), folder_fd)


def _edited(entries: Iterable[str], chosen: interpreter.Interpreter) -> list[str]:
    """Odd entries (no `=`, doubled names) stay as they are: a bare program would get them too."""
    gone = NOT_TAKEN_OVER.union(chosen.removed, chosen.changes)
    kept = [entry for entry in entries if not _is_left_out(entry.split("=", 1)[0], gone)]
    return kept + [f"{name}={value}" for name, value in chosen.changes.items()]


def _is_left_out(name: str, gone: frozenset[str]) -> bool:
    return name in gone or name.startswith("UV_INTERNAL__")


def _mapping(entries: Iterable[str]) -> dict[str, str]:
    """The first of doubled names counts, as for getenv(3)."""
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if equals and name:
            found.setdefault(name, value)
    return found


def _folder(environ: Mapping[str, str]) -> tuple[str, int]:
    """The folder as the shell names it (through links), and a descriptor of it."""
    try:
        fd = os.open(".", getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        fd = -1
    named = environ.get("PWD", "")
    if os.path.isabs(named) and fd >= 0 and _identity_at(named) == _identity_of(fd):
        return named, fd
    try:
        return os.getcwd(), fd
    except OSError:
        return named or "/", fd


def _identity_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _identity_of(fd: int) -> tuple[int, int]:
    if fd < 0:
        return 0, 0
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _umask() -> int:
    """Read, not set and set back: another thread may be creating a file."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    present = os.umask(0o077)
    os.umask(present)
    return present


def _limits() -> dict[str, list[int]]:
    limits: dict[str, list[int]] = {}
    for name in dir(resource):
        if name.startswith("RLIMIT_"):
            try:
                limits[name[7:]] = list(resource.getrlimit(getattr(resource, name)))
            except (OSError, ValueError):
                continue
    return limits


def _affinity() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _ignored() -> list[int]:
    return sorted(
        int(number)
        for number in signal.valid_signals()
        if number not in _PYTHONS_OWN and signal.getsignal(number) == signal.SIG_IGN
    )
