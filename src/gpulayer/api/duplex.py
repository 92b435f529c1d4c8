"""One HTTP/1.1 exchange whose two bodies flow at the same time: frames up, frames down.

Chunked both ways (RFC 9112, 7.1), over a socket or TLS, without blocking: it belongs to one thread,
which polls it beside other descriptors. What is to be sent waits here; a sender looks at `is_full`
before it takes more. The frames are those of `runtime.frames`.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from gpulayer.api.endpoints import Endpoint
from gpulayer.runtime import frames

HIGH_BYTES = 256 << 10
"""With so much to be sent, nothing more is taken."""
HEAD_BYTES = 64 << 10
JSON_BYTES = 64 << 10
"""A control frame of a stream."""
PIECE = 1 << 16

Refuse = Callable[[int, Mapping[str, str], bytes], Exception]


class Duplex:
    """Begun by `open`. EOFError from `receive` and `flush` where the other side is gone."""

    def __init__(self, sock: socket.socket, rest: bytes) -> None:
        self._sock = sock
        self._waiting: deque[memoryview] = deque()
        self._backlog = 0
        self._body = Unchunked()
        self._decoder = frames.Decoder(JSON_BYTES)
        self._rest = rest
        self._wants_write = False
        """TLS cannot read before it has written."""
        self._is_finished = False
        sock.setblocking(False)

    @classmethod
    def open(
        cls,
        endpoint: Endpoint,
        path: str,
        headers: Mapping[str, str],
        timeout: float,
        refuse: Refuse,
    ) -> Duplex:
        """Send the head and wait for that of the answer. Raises what `refuse` makes of an answer
        that is no good one, and what `http1.Connection.exchange` raises."""
        sock = endpoint.connect(timeout)
        try:
            sock.settimeout(timeout)
            lines = [f"POST {path} HTTP/1.1", f"Host: {endpoint.host}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            lines += ["Transfer-Encoding: chunked", "", ""]
            sock.sendall("\r\n".join(lines).encode("latin-1"))
            status, said, rest = _head(sock)
            if status != 200:
                raise refuse(status, said, _whole(sock, said, rest))
            return cls(sock, rest)
        except BaseException as error:
            sock.close()
            if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError):
                raise ConnectionResetError(str(error)) from error
            raise

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def is_full(self) -> bool:
        return self._backlog > HIGH_BYTES

    @property
    def is_flushed(self) -> bool:
        return not self._waiting

    @property
    def has_ended(self) -> bool:
        """The other side has said all that it had to say."""
        return self._body.has_ended

    @property
    def is_pending(self) -> bool:
        """Something was received already that no poll would tell of."""
        return bool(self._rest) or (
            isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0
        )

    @property
    def events(self) -> int:
        """What to poll for, to go on with what waits and to hear."""
        writes = self._waiting or self._wants_write
        return select.POLLIN | (select.POLLOUT if writes else 0)

    def send(self, kind: str, payload: bytes) -> None:
        self._put(frames.HEADER.pack(len(payload), kind.encode("ascii")), payload)

    def send_json(self, message: Mapping[str, Any]) -> None:
        self._put(frames.encode_json(message))

    def finish(self) -> None:
        """Nothing more will be sent. Twice-safe."""
        if not self._is_finished:
            self._is_finished = True
            self._waiting.append(memoryview(b"0\r\n\r\n"))

    def flush(self) -> None:
        """Send what goes now."""
        try:
            while self._waiting:
                head = self._waiting[0]
                sent = self._sock.send(head)
                self._backlog -= sent
                if sent == len(head):
                    self._waiting.popleft()
                else:
                    self._waiting[0] = head[sent:]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            raise EOFError(str(error)) from error

    def receive(self) -> list[tuple[str, Any]]:
        """What has come: (type, object for `J` else bytes) of each whole frame."""
        data, self._rest = self._rest, b""
        self._wants_write = False
        try:
            data = data or self._sock.recv(PIECE)
        except (BlockingIOError, ssl.SSLWantReadError):
            return []
        except ssl.SSLWantWriteError:
            self._wants_write = True
            return []
        except OSError as error:
            raise EOFError(str(error)) from error
        if not data and not self._body.has_ended:
            raise EOFError("the connection ended")
        try:
            self._decoder.feed(self._body.feed(data))
            return [(kind, payload) for kind, payload, _ in self._decoder.frames()]
        except (ValueError, frames.ProtocolError) as error:
            raise EOFError(f"not a stream: {error}") from error

    def close(self) -> None:
        """Twice-safe."""
        self._sock.close()

    def _put(self, *parts: bytes) -> None:
        if self._is_finished:
            return
        size = sum(map(len, parts))
        data = b"".join((b"%x\r\n" % size, *parts, b"\r\n"))
        self._waiting.append(memoryview(data))
        self._backlog += len(data)


class Unchunked:
    """The body of a chunked message, as it comes. ValueError for what is none."""

    def __init__(self) -> None:
        self._line = b""
        self._left = 0
        self._is_inside = False
        """Of a chunk, whose line end is still to come."""
        self.has_ended = False

    def feed(self, data: bytes) -> bytes:
        parts, at = [], 0
        data = self._line + data if self._line else data
        self._line = b""
        while not self.has_ended and at < len(data):
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                self._line = data[at:]
                if len(self._line) > 256:
                    raise ValueError("a chunk without a size")
                break
            line, at = data[at:end], end + 2
            if self._is_inside:
                self._is_inside = False
                continue
            self._left = int(line.partition(b";")[0], 16)
            self._is_inside = self._left > 0
            self.has_ended = self._left == 0
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _head(sock: socket.socket) -> tuple[int, dict[str, str], bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(PIECE)
        if not piece or len(data) > HEAD_BYTES:
            raise ConnectionResetError("the connection ended within an answer")
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, status = first.partition(" ")
    if not version.startswith("HTTP/1.") or not status[:3].isdigit():
        raise ConnectionError(f"not an answer of HTTP/1.1: {first[:40]!r}")
    pairs = (line.partition(":") for line in lines)
    return int(status[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}, rest


def _whole(sock: socket.socket, headers: Mapping[str, str], rest: bytes) -> bytes:
    """The body of a refusal."""
    length = headers.get("content-length", "")
    size = min(int(length), HEAD_BYTES) if length.isdigit() else 0
    while len(rest) < size and (piece := sock.recv(PIECE)):
        rest += piece
    return rest[:size]
