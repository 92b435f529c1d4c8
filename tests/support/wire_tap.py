"""Between a plain server on loopback and whoever calls it: everything that either says."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class WireTap:
    """Carries bytes both ways between each connection and a new one to `port`."""

    def __init__(self, port: int) -> None:
        self.heard = bytearray()
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []

    def __enter__(self) -> WireTap:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        for end in (self._listener, *self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                self._open += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    self.heard += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
