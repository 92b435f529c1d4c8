"""JSON lines over one end of a socket pair: how a supervisor and its keepers speak."""

from __future__ import annotations

import json
import os
import select
from collections import deque

from gpulayer.runtime import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any


class Line:
    """JSON lines over one end of a socket pair."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""
        self._fds: deque[int] = deque()
        self.is_over = False

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        for fd in self.take(len(self._fds)):
            os.close(fd)
        self._sock.close()

    def send(self, message: dict[str, Any]) -> None:
        """Small and few: a full socket can't be but for a peer that is stopped or dead."""
        try:
            self._sock.send(json.dumps(message).encode("ascii") + b"\n")
        except OSError:
            pass

    def send_with(self, message: dict[str, Any], fds: list[int]) -> None:
        """The same with descriptors, and of any size."""
        data = memoryview(json.dumps(message).encode("ascii") + b"\n")
        while data:
            try:
                data = data[frames.send_with_fds(self._sock, bytes(data), fds) :]
                fds = []
            except BlockingIOError:
                select.select((), (self._sock,), ())
            except OSError:
                return  # its end is told elsewhere

    def take(self, count: int) -> list[int]:
        """So many of the descriptors that came, in order; they are the caller's."""
        return [self._fds.popleft() for _ in range(min(count, len(self._fds)))]

    def receive(self) -> list[dict[str, Any]]:
        """What has come; `is_over` once the other end is closed."""
        while True:
            try:
                data, fds = frames.receive_with_fds(self._sock, 1 << 16)
                self._fds.extend(fds)
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
