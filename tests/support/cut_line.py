"""A line to a PostgreSQL server that a test can cut at a chosen word."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
from pathlib import Path

_NAME = ".s.PGSQL.5432"


class CutLine:
    """Carries bytes between clients and the server's socket until it is told otherwise."""

    def __init__(self, address: str) -> None:
        self._target = address.partition("host=")[2]
        self._folder = tempfile.TemporaryDirectory(prefix="gpulayer-line-")
        self.address = address.replace(self._target, self._folder.name)
        self.cuts = 0
        self._word = b""
        self._delivers = False
        self._refuses = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(self._folder.name, _NAME))
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, word: bytes, *, delivers: bool, stays_cut: bool = False) -> None:
        """Cut once, when a client next says `word`. `delivers`: the server hears it and answers,
        and the answer is lost; else it hears nothing of it."""
        self._delivers, self._stays_cut, self._word = delivers, stays_cut, word

    def mend(self) -> None:
        """After `stays_cut`: connections are taken again."""
        self._refuses = False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._cut_all()
        self._folder.cleanup()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refuses:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(Path(self._target) / _NAME))
                with self._lock:
                    self._open |= {client, server}
                for pump in (self._to_server, self._to_client):
                    threading.Thread(target=pump, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                if self._word and self._word in data:
                    self._word = b""
                    self._cut(client, server, data)
                    return
                server.sendall(data)
        _hang_up(client, server)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
        _hang_up(client, server)

    def _cut(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        self.cuts += 1
        self._refuses = self._stays_cut
        if self._stays_cut:  # the others first: whoever hears of this cut finds all of them cut
            self._cut_all(but={client, server})
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_WR)  # nothing of an answer gets through any more
        if self._delivers:
            server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        else:
            _hang_up(server)
        _hang_up(client)

    def _cut_all(self, but: set[socket.socket] | frozenset[socket.socket] = frozenset()) -> None:
        with self._lock:
            _hang_up(*(self._open - but))


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
