"""TLS on loopback in front of a Unix socket: a link that a test can cut, and mend again."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress

from tests.support.tls_server import Identity


class Bridge:
    """Carries bytes both ways between each TLS connection and a new one to `path`."""

    def __init__(self, path: str, identity: Identity | None = None) -> None:
        self.identity = identity or Identity()
        self._path = path
        self._context = self.identity.context()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_cut = self._is_closed = False
        self.connections = 0
        self.heard = bytearray()
        """All that clients have said."""
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"gl://127.0.0.1:{self.port}/sha256.{self.identity.pin}"

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *error: object) -> None:
        self._is_closed = True
        self.cut()
        with socket.create_connection(("127.0.0.1", self.port)):
            pass
        self._accepting.join()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """End every connection, and each new one before its handshake."""
        with self._lock:
            self._is_cut = True
            for sock in self._open:
                with suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def _accept(self) -> None:
        while True:
            raw, _ = self._listener.accept()
            if self._is_closed or self._is_cut:
                raw.close()
                if self._is_closed:
                    return
                continue
            self.connections += 1
            self._start(self._serve, raw)

    def _start(self, target: object, *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()
        return thread

    def _serve(self, raw: socket.socket) -> None:
        near = socket.socket(socket.AF_UNIX)
        try:
            with suppress(OSError, ssl.SSLError):
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                raw.settimeout(30)
                far = self._context.wrap_socket(raw, server_side=True)
                far.settimeout(None)
                near.connect(self._path)
                with self._lock:
                    self._open |= {far, near}
                    is_cut = self._is_cut
                if not is_cut:
                    back = self._start(_pump, near, far, bytearray())
                    _pump(far, near, self.heard)
                    back.join()
                with self._lock:
                    self._open -= {far, near}
                far.close()
        finally:
            near.close()
            raw.close()


def _pump(source: socket.socket, sink: socket.socket, heard: bytearray) -> None:
    with suppress(OSError, ssl.SSLError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
            heard += data
    for sock in (source, sink):
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)
