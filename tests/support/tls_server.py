"""A server on loopback that answers with the bytes it was told, over TLS or in plain text."""

from __future__ import annotations

import datetime
import functools
import socket
import ssl
import threading
from hashlib import sha256

import trustme


@functools.cache
def authority() -> trustme.CA:
    return trustme.CA()


class Identity:
    """A certificate of a server's own, and the pin that names it."""

    def __init__(self, *, days: int = 1) -> None:
        """`days` until it expires; below zero it has expired."""
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)  # noqa: TID251
        self._cert = authority().issue_cert("localhost", not_after=end)
        pem = self._cert.cert_chain_pems[0].bytes().decode()
        self.pin = sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._cert.configure_cert(context)
        return context


class LoopbackServer:
    """Each connection gets the answers in turn; a new connection goes on where the last ended.

    `received` holds what came, per connection, after the handshake: nothing is dropped.
    """

    def __init__(self, *answers: bytes, context: ssl.SSLContext | None = None) -> None:
        self._answers = list(answers)
        self._context = context
        self.received: list[bytes] = []
        self.failed: list[OSError] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._closing = False
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> LoopbackServer:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing = True
        with socket.create_connection(("127.0.0.1", self.port)):
            pass
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            raw, _ = self._listener.accept()
            if self._closing:
                raw.close()
                return
            try:
                with (
                    self._context.wrap_socket(raw, server_side=True) if self._context else raw as s
                ):
                    self._answer(s)
            except OSError as error:  # the client refused, which is what many tests want
                self.failed.append(error)
                raw.close()

    def _answer(self, sock: socket.socket) -> None:
        number = len(self.received)
        self.received.append(b"")
        while piece := sock.recv(65536):
            self.received[number] += piece
            if self.received[number].endswith(b"\r\n\r\n") and self._answers:
                answer = self._answers.pop(0)
                sock.sendall(answer)
                if b"Content-Length" not in answer:
                    return
