"""A server that answers with the bytes it was told, on a Unix socket."""

from __future__ import annotations

import os
import socket
import threading


class Server:
    """Answers each connection's requests with what it was told, byte for byte."""

    def __init__(self, folder: str, *answers: bytes) -> None:
        self.path = os.path.join(folder, "s")
        self.received: list[bytes] = []
        self._answers = list(answers)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while self._answers:
            connection, _ = self._listener.accept()
            with connection:
                while self._answers:
                    request = self._request(connection)
                    if not request:
                        break
                    self.received.append(request)
                    answer = self._answers.pop(0)
                    connection.sendall(answer)
                    if b"Content-Length" not in answer and b"chunked" not in answer:
                        break

    def _request(self, connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return data
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(int(x.split(b":")[1]) for x in head.split(b"\r\n") if b"-Length" in x)
        while len(body) < length:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self._answers.clear()
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(self.path)
        self._thread.join()
        self._listener.close()
