"""One HTTP connection from somebody who may be anybody: what it may cost before it is known.

    headers       16 KiB, complete within 10 s of their first byte
    body          a byte at least every 30 s while one is awaited
    connection    one of at most 4,096; a first request within 10 s

What is past a limit ends the connection without an answer that costs more than a line. Handshakes
have the listener's own limit.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from gpulayer._version import WIRE

_END = f"content-length: 0\r\nconnection: close\r\nx-gpulayer-wire: {WIRE}\r\n\r\n".encode()
_TOO_LARGE = b"HTTP/1.1 431 \r\n" + _END
_TOO_SLOW = b"HTTP/1.1 408 \r\n" + _END
_FULL = b"HTTP/1.1 503 \r\nretry-after: 5\r\n" + _END


@dataclass(frozen=True, slots=True)
class Limits:
    header_bytes: int = 16 << 10
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    connections: int = 4096


class Stranger(HttpToolsProtocol):
    """Belongs to the event loop's thread."""

    def __init__(self, config: Config, state: ServerState, limits: Limits) -> None:
        super().__init__(config=config, server_state=state, app_state={}, _loop=None)
        self._limits = limits
        self._in_head = True
        self._head_bytes = 0
        self._tail = b""
        """The last bytes, since the end of a head may come in two pieces."""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._end(_FULL)
        else:
            self._expect(self._limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._count(data)
            if self._head_bytes > self._limits.header_bytes:
                self._end(_TOO_LARGE)
                return
            if self._timer is None:
                self._expect(self._limits.header_seconds)
        elif self._timer is not None:
            self._expect(self._limits.body_seconds)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._expect(self._limits.body_seconds)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._head_bytes, self._tail = True, 0, b""
        self._expect(None)

    def _count(self, data: bytes) -> None:
        """Before the parser sees them. A body's first bytes may come with its head."""
        end = (self._tail + data).find(b"\r\n\r\n")
        self._head_bytes += len(data) if end < 0 else max(0, end - len(self._tail))
        self._tail = (self._tail + data)[-3:]

    def _expect(self, seconds: float | None) -> None:
        """Something has to come within that time; None: nothing has to."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self._end, _TOO_SLOW)

    def _end(self, word: bytes) -> None:
        self._expect(None)
        if not self._in_head and self.flow.read_paused:
            self._expect(self._limits.body_seconds)  # it is we who do not read
        elif not self.transport.is_closing():
            cycle: Any = self.cycle  # None before the first request
            if (
                cycle is None
                or cycle.response_complete
                or not (self._in_head or cycle.response_started)
            ):
                self.transport.write(word)
            self.transport.close()
