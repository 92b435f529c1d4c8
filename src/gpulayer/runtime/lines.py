"""JSON lines over one end of a socket pair: how a supervisor and its keepers speak."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any


class Line:
    """JSON lines over one end of a socket pair."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        self.is_over = False

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        self._sock.close()

    def send(self, message: dict[str, Any]) -> None:
        """Small and few: a full socket can't be but for a peer that is stopped or dead."""
        try:
            self._sock.send(json.dumps(message).encode("ascii") + b"\n")
        except OSError:
            pass

    def receive(self) -> list[dict[str, Any]]:
        """What has come; `is_over` once the other end is closed."""
        while True:
            try:
                data = self._sock.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.is_over = True
                break
            self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]
