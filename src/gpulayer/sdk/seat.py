"""The right to be the plane of a home: the lock on `plane.lock` and the listener at `p.sock`.

flock(2) belongs to the open file, so both can be given to another process (`sdk.handover`) with no
moment in which a third could win them. They are never unlocked: the lock goes when the last copy
is closed or its holder dies. Lock files are never deleted; after locking, the inode is compared
with the path's, since the folder may have been deleted and made again meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress

from gpulayer._version import __version__
from gpulayer.errors import RefusedError
from gpulayer.sdk.places import Places

BACKLOG = 4096
HELD_SECONDS = 15.0
"""How long a home may be held by somebody who does not answer: one that leaves, or begins."""


class Seat:
    """Held by one plane at a time. Not for two threads at once."""

    def __init__(self, places: Places, lock: int, listener: socket.socket | None = None) -> None:
        """Takes `lock`, which must be locked, and `listener` as its own."""
        self.places = places
        self.lock = lock
        self.listener = listener
        _HELD.add(self)

    @classmethod
    def take(cls, places: Places) -> Seat | None:
        """The lock, if nobody has it. Never creates the folder: FileNotFoundError if it is gone."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        lock = os.open(places.plane_lock, flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(lock, places.plane_lock):
                return cls(places, lock)
        except BlockingIOError:
            pass
        os.close(lock)
        return None

    def announce(self, kind: str) -> None:
        """Write who holds it into the lock file: pid, runtime folder, version, kind. For clients
        that look for the socket, and for messages; never proof of anything."""
        text = f"{os.getpid()}\n{self.places.runtime}\n{__version__}\n{kind}\n"
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, text.encode("utf-8", "surrogateescape"), 0)

    def bind(self) -> socket.socket:
        """Listen at the plane's path, which a dead plane may have left behind. Bound beside it and
        renamed, so that nobody finds it bound and not listening. Again after `unlink`."""
        if self.listener is None:
            draft = f"{self.places.plane_socket}.{os.getpid()}"
            with suppress(FileNotFoundError):
                os.unlink(draft)
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.listener.bind(draft)
            self.listener.listen(BACKLOG)
            self.listener.setblocking(False)
            os.rename(draft, self.places.plane_socket)
        return self.listener

    def unlink(self) -> None:
        """Take the path away, so that nobody new comes; who is in the backlog is still served."""
        with suppress(FileNotFoundError):
            os.unlink(self.places.plane_socket)

    def rebind(self) -> socket.socket:
        """A new listener at the path, after `unlink` had been too early."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        return self.bind()

    def is_in_place(self) -> bool:
        """Whether home and socket are still the ones that were taken."""
        return _same_file(self.lock, self.places.plane_lock) and os.path.lexists(
            self.places.plane_socket
        )

    def close(self) -> None:
        """Let go. Twice-safe."""
        _HELD.discard(self)
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


_HELD: set[Seat] = set()


def _let_go_in_child() -> None:
    """A child forked by a user's program (an embedded plane's) must not keep the home locked."""
    for seat in list(_HELD):
        seat.close()


os.register_at_fork(after_in_child=_let_go_in_child)


def holder(places: Places) -> dict[str, str]:
    """Who wrote itself into the lock last: {pid, runtime, version, kind}; for messages only."""
    try:
        with open(places.plane_lock, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(4096).split("\n")
    except OSError:
        return {}
    return dict(zip(("pid", "runtime", "version", "kind"), lines, strict=False))


def silent_holder(places: Places) -> RefusedError:
    """The error for a home that is held by a process that does not answer."""
    who = holder(places)
    return RefusedError(
        "plane-held",
        f"process {who.get('pid', '?')} holds {places.home} and does not answer",
        why=f"it is a {who.get('kind', 'plane')} of version {who.get('version', '?')}",
        hint="gpulayer doctor",
    )


def is_held(lock: str) -> bool:
    """Whether some process holds that lock file now."""
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _same_file(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False
