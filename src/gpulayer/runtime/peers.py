"""One connection to the supervisor, from its side: non-blocking, bounded, of the same user only.

Frames go out at once where the socket takes them, else they wait here. A peer that reads slowly
is `choked` past `HIGH_BYTES`; who feeds it must then stop until `drained` is called. A peer that
breaks the protocol is closed.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque

from gpulayer.runtime import frames
from gpulayer.runtime.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpulayer.runtime.loop import Loop

HIGH_BYTES = 256 << 10
LOW_BYTES = 64 << 10
ANSWER_BYTES = 4 << 20
"""A peer that asks and asks and never reads is not listened to any more past this."""


class Peer:
    """`received` gets (peer, type, payload, descriptors); the descriptors are then its own."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        received: Callable[[Peer, str, Any, list[int]], object],
        closed: Callable[[Peer], object],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._received = received
        self._closed = closed
        self._decoder = frames.Decoder()
        self._waiting: deque[memoryview] = deque()
        self._backlog = 0
        self.is_open = True
        self.role = ""
        self.drained: Callable[[], object] = _nothing
        sock.setblocking(False)
        loop.watch(sock.fileno(), READ, self._ready)

    @property
    def choked(self) -> bool:
        return self.is_open and self._backlog > HIGH_BYTES

    def send(self, kind: str, payload: bytes) -> None:
        """Never blocks, never raises; bytes for a closed peer are dropped."""
        header = frames.HEADER.pack(len(payload), kind.encode("ascii"))
        self._put(memoryview(header), memoryview(payload))

    def send_json(self, message: dict[str, Any]) -> None:
        self._put(memoryview(frames.encode_json(message)))

    def close(self) -> None:
        """Twice-safe. `closed` is called once."""
        if not self.is_open:
            return
        self.is_open = False
        self._loop.unwatch(self._sock.fileno())
        self._decoder.close()
        self._sock.close()
        self._waiting.clear()
        self._backlog = 0
        self._closed(self)
        self.drained()

    def _put(self, *parts: memoryview) -> None:
        if not self.is_open:
            return
        if not self._waiting:
            parts = self._send(parts)
        if parts and self.is_open:
            if not self._waiting:
                self._loop.watch(self._sock.fileno(), READ | WRITE, self._ready)
            self._waiting.extend(parts)
            self._backlog += sum(len(part) for part in parts)
            if self._backlog > ANSWER_BYTES:
                self._loop.watch(self._sock.fileno(), WRITE, self._ready)

    def _send(self, parts: tuple[memoryview, ...]) -> tuple[memoryview, ...]:
        """Sends what the socket takes and returns the rest."""
        try:
            sent = self._sock.sendmsg(parts)
        except BlockingIOError:
            return parts
        except OSError:
            self._loop.after(0, self.close)
            return ()
        while parts and sent >= len(parts[0]):
            sent -= len(parts[0])
            parts = parts[1:]
        return (parts[0][sent:], *parts[1:]) if parts else ()

    def _ready(self) -> None:
        if self._waiting:
            self._flush()
        if self.is_open and self._backlog <= ANSWER_BYTES:
            self._receive()

    def _flush(self) -> None:
        before = self._backlog
        while self._waiting:
            batch = tuple(self._waiting[i] for i in range(min(64, len(self._waiting))))
            rest = self._send(batch)
            for _ in batch:
                self._backlog -= len(self._waiting.popleft())
            self._waiting.extendleft(reversed(rest))
            self._backlog += sum(len(part) for part in rest)
            if rest:
                break
        if self.is_open and not self._waiting:
            self._loop.watch(self._sock.fileno(), READ, self._ready)
        elif self.is_open and before > ANSWER_BYTES >= self._backlog:
            self._loop.watch(self._sock.fileno(), READ | WRITE, self._ready)
        if before > LOW_BYTES >= self._backlog:
            self.drained()

    def _receive(self) -> None:
        try:
            data, fds = frames.receive_with_fds(self._sock, frames.CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self.close()
            return
        try:
            self._decoder.feed(data, fds)
            for kind, payload, own in self._decoder.frames():
                if self.is_open:
                    self._received(self, kind, payload, own)
                else:
                    for fd in own:
                        os.close(fd)
        except frames.ProtocolError:
            self.close()


class Listener:
    """The socket at `path`, bound beside it and renamed onto it, so that nobody ever finds it
    bound but not listening. `accepted` gets each connection of the same user."""

    def __init__(self, loop: Loop, path: str, accepted: Callable[[socket.socket], object]) -> None:
        self._loop = loop
        self._path = path
        self._accepted = accepted
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        draft = f"{path}.{os.getpid()}"
        _unlink(draft)
        self._sock.bind(draft)
        self._sock.listen(4096)
        self._sock.setblocking(False)
        os.rename(draft, path)
        self._inode = os.lstat(path).st_ino
        loop.watch(self._sock.fileno(), READ, self._accept)

    def is_in_place(self) -> bool:
        """Whether the path still leads here."""
        try:
            return os.lstat(self._path).st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        if self.is_in_place():
            _unlink(self._path)
        self._loop.unwatch(self._sock.fileno())
        self._sock.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._sock.accept()
        except OSError:
            return  # gone again, or no descriptor free: the backlog keeps it
        if peer_uid(sock) == os.getuid():
            self._accepted(sock)
        else:
            sock.close()


def peer_uid(sock: socket.socket) -> int:
    """The user at the other end, as the kernel says (unix(7) SO_PEERCRED; LOCAL_PEERCRED)."""
    if hasattr(socket, "SO_PEERCRED"):
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", raw)[1])
    raw = sock.getsockopt(0, 1, 76)
    return int(struct.unpack_from("2I", raw)[1])


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _nothing() -> None:
    """Nobody waits for room."""
