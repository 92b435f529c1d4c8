"""One HTTP/1.1 client connection over a Unix socket, and no more of RFC 9112 than that needs.

`http.client` would do, but loads TLS and the e-mail parser: a third of the time that a short
command line takes. What is not understood is a ConnectionError, like a lost connection.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple

PIECE_BYTES = 1 << 20
LONGEST_LINE = 65_536
MOST_HEADERS = 200


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    data: bytes
    will_close: bool


class Connection:
    """Connected at the first exchange. One exchange at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.sock: socket.socket | None = None

    def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | BinaryIO | None,
        timeout: float,
    ) -> Answer:
        """Send and receive. A body that is a file needs a Content-Length among the headers.

        Raises TimeoutError after `timeout` seconds without a byte, and when the plane's backlog
        is full; ConnectionError or FileNotFoundError when nobody is there. What raises in the
        middle, Ctrl-C too, ends the connection: the next exchange shall not read this answer.
        """
        try:
            return self._exchange(method, path, headers, body, timeout)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.sock is not None:
            self._reader.close()
            self.sock.close()
            self.sock = None

    def _exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | BinaryIO | None,
        timeout: float,
    ) -> Answer:
        if self.sock is None:
            self._connect(timeout)
        assert self.sock is not None
        self.sock.settimeout(timeout)
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is None or isinstance(body, bytes):
            lines.append(f"Content-Length: {len(body or b'')}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if body is None or isinstance(body, bytes):
            self.sock.sendall(head + (body or b""))
        else:
            self.sock.sendall(head)
            while piece := body.read(PIECE_BYTES):
                self.sock.sendall(piece)
        return self._receive()

    def _connect(self, timeout: float) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(self._path)
        except BlockingIOError as error:  # a full backlog: the plane is there and busy
            sock.close()
            raise TimeoutError(self._path) from error
        except BaseException:
            sock.close()
            raise
        self.sock = sock
        self._reader = sock.makefile("rb")

    def _receive(self) -> Answer:
        status, version = 100, ""
        headers: dict[str, str] = {}
        while status < 200:  # 1xx are word in between
            version, _, rest = self._line().partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
                raise ConnectionError(f"not an answer of HTTP/1.1: {version[:40]!r}")
            status, headers = int(rest[:3]), self._headers()
        closes = version == "HTTP/1.0" or "close" in headers.get("connection", "").lower()
        if status in (204, 304):
            data = b""
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            data = self._chunks()
        elif "content-length" in headers:
            data = self._exactly(_number(headers["content-length"], 10))
        else:
            data, closes = self._reader.read(), True
        return Answer(status, headers, data, closes)

    def _headers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for _ in range(MOST_HEADERS):
            line = self._line()
            if not line:
                return found
            name, _, value = line.partition(":")
            found[name.strip().lower()] = value.strip()
        raise ConnectionError("too many headers")

    def _chunks(self) -> bytes:
        pieces = []
        while size := _number(self._line().partition(";")[0], 16):
            pieces.append(self._exactly(size))
            self._line()
        self._headers()  # trailers
        return b"".join(pieces)

    def _line(self) -> str:
        line = self._reader.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the connection ended within an answer")
        return line.rstrip(b"\r\n").decode("latin-1")

    def _exactly(self, size: int) -> bytes:
        data = self._reader.read(size)
        if len(data) != size:
            raise ConnectionResetError("the connection ended within an answer")
        return data


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        raise ConnectionError(f"not a length: {text[:40]!r}") from None
    if number < 0:
        raise ConnectionError(f"not a length: {text[:40]!r}")
    return number
