"""A proxy between a worker and its plane that does to requests what a bad network does.

    lose       the request never arrives            lose_reply   it is obeyed, nobody hears of it
    cut        half of the request arrives          cut_reply    half of the reply arrives
    double     it arrives twice at once             late         it arrives after its repetition
    slow       its bytes come one handful at a time  wait         the reply takes its time

Whole HTTP/1.1 messages with a Content-Length are told apart (RFC 9112), so that each fate strikes
where it is meant to. A parked call may meet any of them too.
"""

from __future__ import annotations

import os
import random
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable
from enum import StrEnum

Address = str | tuple[str, int]
"""Path of a socket, or host and port."""

LATE_SECONDS = 0.15
"""Longer than the channel takes to try again."""
WAIT_SECONDS = 0.05
SLOW_PIECES = 20


class Fate(StrEnum):
    PASS = "pass"
    LOSE = "lose"
    CUT = "cut"
    DOUBLE = "double"
    LATE = "late"
    LOSE_REPLY = "lose_reply"
    CUT_REPLY = "cut_reply"
    SLOW = "slow"
    WAIT = "wait"


class _Gone(Exception):
    """One of the two ends has left."""


class BadProxy:
    """Listens on `path`. Leaving the context ends every connection and thread of it."""

    def __init__(
        self, upstream: Address, fates: Iterable[Fate] = (), seed: int = 0, rate: float = 0.3
    ) -> None:
        """Of all requests the part `rate` meets one of `fates`, drawn from `seed`."""
        self.path = tempfile.mkdtemp(prefix="gpl-") + "/proxy.sock"
        self.met: dict[Fate, int] = dict.fromkeys(Fate, 0)
        """How many requests have met each fate."""
        self._upstream = upstream
        self._fates = tuple(fates)
        self._rate = rate
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._cut = False
        self._ended = threading.Event()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._begin(self._accept)

    def __enter__(self) -> BadProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._ended.set()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self.path)
        self._hang_up()
        for thread in self._threads:
            thread.join()
        self._listener.close()
        os.unlink(self.path)
        os.rmdir(os.path.dirname(self.path))

    def cut(self, is_cut: bool) -> None:
        """While it is, connections end at once and nothing passes."""
        with self._lock:
            self._cut = is_cut
        if is_cut:
            self._hang_up()

    def behave(self) -> None:
        """From now on everything passes."""
        self._fates = ()

    # --- one connection ---------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._ended.is_set():
            client, _ = self._listener.accept()
            with self._lock:
                refused = self._cut or self._ended.is_set()
            if refused:
                client.close()
                continue
            self._begin(lambda client=client: self._serve(client))  # type: ignore[misc]

    def _serve(self, client: socket.socket) -> None:
        with self._kept(client), self._kept(self._connect()) as plane:
            try:
                while (request := _message(client)) is not None:
                    self._carry(request, client, plane)
            except (_Gone, OSError):
                pass

    def _carry(self, request: bytes, client: socket.socket, plane: socket.socket) -> None:
        fate = self._draw()
        match fate:
            case Fate.LOSE:
                raise _Gone
            case Fate.CUT:
                plane.sendall(request[: len(request) // 2])
                raise _Gone
            case Fate.LATE:
                self._begin(lambda: self._aside(request, LATE_SECONDS))
                raise _Gone
            case Fate.DOUBLE:
                self._begin(lambda: self._aside(request, 0.0))
            case Fate.SLOW:
                self._dribble(plane, request)
        if fate is not Fate.SLOW:
            plane.sendall(request)
        reply = _message(plane)
        if reply is None or fate is Fate.LOSE_REPLY:
            raise _Gone
        if fate is Fate.WAIT:
            self._ended.wait(WAIT_SECONDS)
        if fate is Fate.CUT_REPLY:
            client.sendall(reply[: len(reply) // 2])
            raise _Gone
        if fate is Fate.SLOW:
            self._dribble(client, reply)
        else:
            client.sendall(reply)

    def _aside(self, request: bytes, after: float) -> None:
        """The request on a connection of its own, whose reply nobody reads."""
        if self._ended.wait(after):
            return
        try:
            with self._kept(self._connect()) as plane:
                plane.sendall(request)
                _message(plane)
        except (_Gone, OSError):
            pass

    def _dribble(self, to: socket.socket, data: bytes) -> None:
        size = max(1, len(data) // SLOW_PIECES)
        for start in range(0, len(data), size):
            to.sendall(data[start : start + size])
            self._ended.wait(0.001)

    # --- inside -----------------------------------------------------------------------------

    def _draw(self) -> Fate:
        with self._lock:
            strikes = self._fates and self._random.random() < self._rate
            fate = self._random.choice(self._fates) if strikes else Fate.PASS
            self.met[fate] += 1
            return fate

    def _connect(self) -> socket.socket:
        family = socket.AF_UNIX if isinstance(self._upstream, str) else socket.AF_INET
        plane = socket.socket(family)
        try:
            plane.connect(self._upstream)
        except OSError:
            plane.close()
            raise
        return plane

    def _kept(self, sock: socket.socket) -> _Kept:
        with self._lock:
            self._open.add(sock)
            over = self._cut or self._ended.is_set()
        if over:
            _shut(sock)
        return _Kept(sock, self._lost)

    def _lost(self, sock: socket.socket) -> None:
        with self._lock:
            self._open.discard(sock)
        sock.close()

    def _hang_up(self) -> None:
        with self._lock:
            for sock in self._open:
                _shut(sock)

    def _begin(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except OSError:
                pass  # the plane was away, or an end was hung up

        thread = threading.Thread(target=guarded)
        self._threads.append(thread)
        thread.start()


class _Kept:
    """A socket that the proxy can hang up while it is in use."""

    def __init__(self, sock: socket.socket, lost: Callable[[socket.socket], None]) -> None:
        self._sock = sock
        self._lost = lost

    def __enter__(self) -> socket.socket:
        return self._sock

    def __exit__(self, *_: object) -> None:
        self._lost(self._sock)


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended by itself


def _message(sock: socket.socket) -> bytes | None:
    """One request or reply as it came; None at an end between two."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(1 << 16)
        if not piece:
            if data:
                raise _Gone
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (
            int(v)
            for k, _, v in (line.partition(b":") for line in head.split(b"\r\n"))
            if k.strip().lower() == b"content-length"
        ),
        0,
    )
    parts, size = [body], len(body)
    while size < length:
        piece = sock.recv(1 << 16)
        if not piece:
            raise _Gone
        parts.append(piece)
        size += len(piece)
    return head + b"\r\n\r\n" + b"".join(parts)
