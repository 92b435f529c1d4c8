"""Giving a home from one plane to another while jobs run and clients wait.

O holds the seat, N wants it (an upgrade, `serve`, an embedded plane):

    N  imports everything, listens on a private socket, asks O over HTTP: {socket, version, kind}
    O  says yes, stops accepting, answers who is in flight, closes the database
    O  sends listener and lock (SCM_RIGHTS) to N's socket and keeps its copies
    N  opens the database, accepts, says `took`; O is gone at that word
    O  when N says `gave-up`: opens again. On silence or an end without a word: ends N by pidfd,
       waits for its death, and opens again

Only N's word that it has closed everything, or proof of its death, lets O resume: both hold the
same lock, so the lock cannot tell them apart. N falls back to an ordinary start when O dies.
Clients see a closed connection, come back to the same path and repeat themselves.
"""

from __future__ import annotations

import array
import os
import select
import signal
import socket
import struct

from gpulayer._version import __version__, ordered
from gpulayer.errors import RefusedError
from gpulayer.runtime import crash
from gpulayer.sdk.places import Places
from gpulayer.sdk.seat import HELD_SECONDS, Seat, silent_holder

TOOK, GAVE_UP = b"took", b"gave-up"
TOOK_SECONDS = 5.0
"""How long O waits for N's word."""
GIVEN_SECONDS = 30.0
"""How long N waits for O: its requests in flight and its database come first."""
GONE_SECONDS = 2.0
"""How long O may take to be gone after `took`; then N ends it, since a frozen O keeps clients."""


def refusal(mine: str, body: dict[str, str]) -> str:
    """Why O, of kind `mine`, does not hand over to who asks; empty when it does.

    An upgrade goes upward only: a swap downward or sideways would go round in circles.
    """
    if mine == "embedded":
        return f"it is embedded in process {os.getpid()} and ends with it"
    if mine == "serve":
        return f"it serves other machines, as process {os.getpid()}, and has promised to go on"
    theirs = ordered(body.get("version", "0"))
    if theirs < ordered(__version__):
        return f"it is of version {__version__}, which is newer"
    if body.get("kind") == "local" and (mine != "local" or theirs == ordered(__version__)):
        return f"it is a {mine} plane of version {__version__}, which is as new"
    return ""


class Heir:
    """O's side, after it has paused: blocking, to be run on a thread."""

    def __init__(self, seat: Seat, path: str) -> None:
        """Connect to N. Raises OSError when it has gone meanwhile."""
        self._seat = seat
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._sock.settimeout(TOOK_SECONDS)
            self._sock.connect(path)
            self._pid, uid = peer(self._sock)
            if uid != os.getuid():
                raise PermissionError(f"process {self._pid} belongs to user {uid}")
            self._pidfd = os.pidfd_open(self._pid)
        except BaseException:
            self._sock.close()
            raise

    def give(self) -> bool:
        """Hand over; True: N has it, and this process must end at once without unlocking.
        False: N is dead or has let go, so this process may open again."""
        assert self._seat.listener is not None
        fds = array.array("i", (self._seat.listener.fileno(), self._seat.lock))
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)
        try:
            self._sock.sendmsg([b"!"], [rights])
            crash.point("old-sent")
            word = self._sock.recv(64)
        except OSError:
            word = b""
        if word == TOOK:
            crash.point("old-heard-took")
            return True
        if word != GAVE_UP:
            self._end()
        self._sock.close()
        os.close(self._pidfd)
        return False

    def _end(self) -> None:
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass
        select.select([self._pidfd], [], [])


class Claim:
    """N's side: asks for the seat, and waits for it or for O's death."""

    def __init__(self, places: Places, kind: str) -> None:
        """Ask O. Raises `plane-held` with its reason when it refuses, OSError when nobody
        listens."""
        self._places = places
        self._kind = kind
        self._path = f"{places.runtime}/t.sock.{os.getpid()}"
        self._old, self._old_pid = _watch(places.plane_socket)
        self._to_old: socket.socket | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(self._path)
            self._listener.listen(1)
            self._ask()
        except BaseException:
            self._close()
            raise

    def receive(self) -> Seat | None:
        """The seat; None when O died first, or nothing came: then start as any other would."""
        crash.point("new-asked")
        if self._comes(self._listener, GIVEN_SECONDS):
            sock, _ = self._listener.accept()
            self._to_old = sock
            if peer(sock)[1] == os.getuid() and self._comes(sock, TOOK_SECONDS):
                seat = self._seat(sock)
                if seat is not None:
                    crash.point("new-received")
                    return seat
        self._close()
        return None

    def took(self) -> None:
        """Tell O that the home is served here; end it if it will not go. It may be dead already:
        then the home is ours all the same."""
        assert self._to_old is not None
        try:
            self._to_old.sendall(TOOK)
        except OSError:
            pass
        crash.point("new-took")
        if not select.select([self._old], [], [], GONE_SECONDS)[0]:
            signal.pidfd_send_signal(self._old, signal.SIGKILL)
        self._close()

    def give_up(self) -> None:
        """Tell O that everything received is closed again, so that it may go on."""
        if self._to_old is not None:
            try:
                self._to_old.sendall(GAVE_UP)
            except OSError:
                pass
        self._close()

    def _ask(self) -> None:
        from gpulayer.api.wire import Wire

        body = {"socket": self._path, "version": __version__, "kind": self._kind}
        reply = Wire(self._places.plane_socket, tries=1).call("POST", "/v1/takeover", body)
        if not reply.get("ok"):
            raise RefusedError(
                "plane-held",
                f"process {self._old_pid} holds {self._places.home} and does not hand it over",
                why=str(reply.get("why", "")),
                hint="gpulayer stop",
            )

    def _comes(self, what: socket.socket, seconds: float) -> bool:
        """Whether `what` is readable before O is dead."""
        ready, _, _ = select.select([what.fileno(), self._old], [], [], seconds)
        return what.fileno() in ready

    def _seat(self, sock: socket.socket) -> Seat | None:
        fds = array.array("i")
        data, ancillary, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(2 * fds.itemsize))
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(payload)
        if not data or len(fds) != 2:
            return None
        for fd in fds:
            os.set_inheritable(fd, False)
        return Seat(self._places, fds[1], socket.socket(fileno=fds[0]))

    def _close(self) -> None:
        self._listener.close()
        if self._to_old is not None:
            self._to_old.close()
        os.close(self._old)
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass


def take_seat(places: Places, kind: str) -> tuple[Seat, Claim | None]:
    """The home's seat, from whoever holds it if need be: then with the claim that the caller must
    end by `took` or `give_up`.

    Raises `plane-held` where its holder refuses, or neither answers nor goes.
    """
    from gpulayer.clock import SystemClock
    from gpulayer.sdk.waiting import look_again

    clock = SystemClock()
    end = clock.monotonic() + HELD_SECONDS
    while True:
        seat = Seat.take(places)
        if seat is not None:
            return seat, None
        try:
            claim = Claim(places, kind)
        except OSError:  # it has just ended, or is only beginning
            if clock.monotonic() >= end:
                raise silent_holder(places) from None
            look_again()
            continue
        seat = claim.receive()
        if seat is not None:
            return seat, claim


def peer(sock: socket.socket) -> tuple[int, int]:
    """(pid, uid) of the process at the other end, as the kernel knows it (unix(7))."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", raw)
    return pid, uid


def _watch(path: str) -> tuple[int, int]:
    """A pidfd of whoever listens there, and its pid. The kernel names who called listen(2) last,
    and each new holder of the listener does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.connect(path)
        pid, _ = peer(probe)
    return os.pidfd_open(pid), pid
