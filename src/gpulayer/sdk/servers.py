"""The servers that this person has logged in to, and which plane a process means.

    HOME/servers.json    {"schema": 1, "current": NAME or null, "servers": {NAME: {"url": ...}}}
    HOME/tokens/NAME     the token for it, readable by its owner alone

`GPULAYER_URL` and `GPULAYER_TOKEN` come first, then what `gpulayer use` chose, then the local
plane. A token leaves its file for one header of one pinned connection and nothing else.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gpulayer.api.endpoints import Far, parse
from gpulayer.errors import GPULayerError, NotFoundError, StorageError, UsageError
from gpulayer.sdk.disk import disk_error

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire
    from gpulayer.errors import UnreachableError

SCHEMA = 1
LOCAL = "local"
"""What `use` calls the plane of this machine; no server can have that name."""
TOKEN_BYTES = 4096
TRIES, PAUSE_SECONDS = 7, 0.3
"""A link that was cut for an instant and a server that is being restarted are back within that
time; who can wait longer (a followed log, a worker) begins again by itself."""

_TOKEN = re.compile(r"[\x21-\x7e]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class Elsewhere(Protocol):
    """A plane that jobs are sent to without the world of this terminal."""

    @property
    def name(self) -> str:
        """For people; empty where there is nothing to tell."""

    def wire(self) -> Wire: ...


class LocalPlane:
    """This machine's own plane, for jobs that may run on any of its workers (`serve`)."""

    name = ""

    def wire(self) -> Wire:
        """A connection; the plane is started when there is none."""
        from gpulayer.sdk.local import ensure_plane
        from gpulayer.sdk.places import Places

        return ensure_plane(Places.find())


class Server(NamedTuple):
    name: str
    endpoint: Far
    token: str
    """Empty where a server wants none."""

    def __repr__(self) -> str:
        return f"<Server {self.name} {self.endpoint}>"

    def wire(self, on_lost: Callable[[UnreachableError], object] = lambda error: None) -> Wire:
        """A connection, made with the first call; one that is lost is made again for a while.
        `on_lost`: see `patient_wire`."""
        from gpulayer.sdk.patient_wire import PatientWire

        token = self.token
        return PatientWire(
            self.endpoint,
            on_lost=on_lost,
            token=(lambda: token) if token else None,
            revive=_pause,
            tries=TRIES,
        )


def chosen(home: str, environ: Mapping[str, str] | None = None) -> Server | None:
    """The server that this process means; None: the local plane. Reads only."""
    environ = os.environ if environ is None else environ
    url, token = environ.get("GPULAYER_URL"), environ.get("GPULAYER_TOKEN")
    if url:
        return from_url(url, token or "", "GPULAYER_URL")
    if token:
        raise UsageError(
            "usage",
            "GPULAYER_TOKEN is set and GPULAYER_URL is not",
            why="a token belongs to one server",
            hint="unset GPULAYER_TOKEN",
        )
    servers = Servers(home)
    return servers.get(current) if (current := servers.current()) else None


def from_url(url: str, token: str, where: str) -> Server:
    """A server that is not among the known ones."""
    address = parse(url)
    if address.code is not None:
        raise UsageError(
            "usage",
            f"{where} carries a one-time code, which is used up by logging in",
            why="log in with that line once; an address for scripts is gl://HOST:PORT/sha256....",
            hint="gpulayer login --help",
        )
    if not token and address.endpoint.pin:
        raise UsageError(
            "usage",
            f"{where} names a server, and there is no token for it",
            hint="export GPULAYER_TOKEN=...",
        )
    if _TOKEN.fullmatch(token) is None:
        raise UsageError(
            "usage",
            f"the token for {where} has characters that no token has",
            hint="export GPULAYER_TOKEN=...",
        )
    return Server(address.endpoint.host, address.endpoint, token)


class Servers:
    """The known servers of one home. Changes are atomic, also between processes."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._file = os.path.join(home, "servers.json")
        self._tokens = os.path.join(home, "tokens")

    def current(self) -> str | None:
        found = self._read()["current"]
        return None if found is None else str(found)

    def all(self) -> dict[str, str]:
        """Name to URL."""
        return {name: str(row["url"]) for name, row in self._read()["servers"].items()}

    def get(self, name: str) -> Server:
        """Raises `server-not-found`; `token-unsafe` where others could read its token."""
        url = self.all().get(name)
        if url is None:
            raise self._unknown(name)
        return Server(name, parse(url).endpoint, read_token(self.token_file(name)))

    def token_file(self, name: str) -> str:
        return os.path.join(self._tokens, name)

    def add(self, name: str, endpoint: Far, token: str) -> None:
        """Keep it, in place of one of that name, and choose it."""
        require_name(name)
        write_private(self.token_file(name), token)
        with self._change() as known:
            known["servers"][name] = {"url": endpoint.url}
            known["current"] = name

    def use(self, name: str) -> None:
        """From now on; `local`: this machine."""
        with self._change() as known:
            if name != LOCAL and name not in known["servers"]:
                raise self._unknown(name)
            known["current"] = None if name == LOCAL else name

    def remove(self, name: str) -> None:
        """Forget it and its token."""
        with self._change() as known:
            if known["servers"].pop(name, None) is None:
                raise self._unknown(name)
            if known["current"] == name:
                known["current"] = None
        self._forget_token(name)

    def _forget_token(self, name: str) -> None:
        """Wherever it is: also as the one that was made to log in with."""
        try:
            token = read_token(self.token_file(name))
            for other in os.listdir(self._tokens):
                if read_token(self.token_file(other)) == token:
                    os.unlink(self.token_file(other))
        except GPULayerError:
            os.unlink(self.token_file(name))

    def _unknown(self, name: str) -> NotFoundError:
        known = ", ".join([LOCAL, *self.all()])
        return NotFoundError(
            "server-not-found",
            f"no server is called {name!r}",
            why=f"there are {known}",
            hint="gpulayer use",
        )

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._file, encoding="utf-8") as file:
                found = json.load(file)
            servers = {str(name): dict(row) for name, row in found["servers"].items()}
            return {"schema": SCHEMA, "current": found.get("current"), "servers": servers}
        except (FileNotFoundError, NotADirectoryError):
            return {"schema": SCHEMA, "current": None, "servers": {}}
        except OSError as error:
            raise disk_error(error, self._file) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageError(
                "corrupt",
                f"{self._file} is not a list of servers",
                why=str(error),
                hint=f"mv {self._file} {self._file}.old",
            ) from error

    @contextmanager
    def _change(self) -> Iterator[dict[str, Any]]:
        private_folder(self._home)
        lock = os.open(f"{self._file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = self._read()
            yield known
            write_private(self._file, json.dumps(known, indent=2) + "\n")
        finally:
            os.close(lock)


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text != LOCAL


def require_name(name: str) -> None:
    if not is_name(name):
        raise UsageError(
            "usage",
            f"{name!r} cannot be the name of a server",
            why=f"a name has 1 to 63 of A-Z a-z 0-9 _ . - and is not '{LOCAL}'",
            hint="--name lab",
        )


def read_token(path: str) -> str:
    """The one line of a file that its owner alone can read.

    The file that is checked is the one that is read: no link is followed, and nothing can come
    between.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unsafe(path, error.strerror or str(error)) from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise _unsafe(path, "it is not a regular file")
        if found.st_uid != os.geteuid():
            raise _unsafe(path, f"it belongs to user {found.st_uid}, and you are {os.geteuid()}")
        if found.st_mode & 0o077:
            raise _unsafe(path, f"its mode is {stat.S_IMODE(found.st_mode):o}", f"chmod 600 {path}")
        return os.read(fd, TOKEN_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(fd)


def write_private(path: str, text: str) -> None:
    """Replace a file by one of mode 0600, whole or not at all, also over a loss of power."""
    folder = os.path.dirname(path)
    private_folder(folder)
    draft = f"{path}.{os.getpid()}.new"
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            os.fchmod(fd, 0o600)
            file.write(text)
            file.flush()
            os.fsync(fd)
        os.rename(draft, path)
        above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(above)
        finally:
            os.close(above)
    except OSError as error:
        raise disk_error(error, path) from error


def private_folder(folder: str) -> None:
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
    except OSError as error:
        raise disk_error(error, folder) from error


def _pause() -> None:
    """Between two tries. Ctrl-C ends it."""
    select.select((), (), (), PAUSE_SECONDS)


def _unsafe(path: str, why: str, hint: str = "gpulayer help token-unsafe") -> GPULayerError:
    return StorageError("token-unsafe", "the token is not used", where=path, why=why, hint=hint)
