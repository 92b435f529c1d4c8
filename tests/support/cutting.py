"""A line that ends each connection once it has carried so many bytes one way, and counts them."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading

Address = str | tuple[str, int]
"""Path of a socket, or host and port."""


class Cutting:
    """Leaving the context ends all of it. `address` is of the kind that `target` is."""

    def __init__(self, target: Address, every: int) -> None:
        self._target = target
        self._every = every
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.up = self.down = self.cuts = 0
        """Bytes that went to the target, and came from it; connections that were cut."""
        self._folder = tempfile.TemporaryDirectory(prefix="gpl-")
        self._family = socket.AF_UNIX if isinstance(target, str) else socket.AF_INET
        self._listener = socket.socket(self._family)
        is_path = isinstance(target, str)
        self._listener.bind(os.path.join(self._folder.name, "s") if is_path else ("127.0.0.1", 0))
        self._listener.listen(64)
        self.address: Address = self._listener.getsockname()
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def __enter__(self) -> Cutting:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        with self._lock:
            for end in self._open:
                _hang_up(end)
        self._folder.cleanup()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(self._family)
                try:
                    far.connect(self._target)
                except OSError:
                    near.close()
                    continue
                with self._lock:
                    self._open |= {near, far}
                threading.Thread(target=self._serve, args=(near, far), daemon=True).start()

    def _serve(self, near: socket.socket, far: socket.socket) -> None:
        back = threading.Thread(target=self._pump, args=(far, near, False), daemon=True)
        back.start()
        self._pump(near, far, True)
        back.join()
        with self._lock:
            self._open -= {near, far}
        near.close()  # a sender hears of it now, and is not kept waiting for room
        far.close()

    def _pump(self, source: socket.socket, sink: socket.socket, is_up: bool) -> None:
        left = self._every
        with contextlib.suppress(OSError):
            while left and (data := source.recv(min(left, 1 << 16))):
                sink.sendall(data)
                left -= len(data)
                with self._lock:
                    self.up += len(data) * is_up
                    self.down += len(data) * (not is_up)
        with self._lock:
            self.cuts += not left
        _hang_up(sink)
        _hang_up(source)


def _hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
