"""One HTTP/1.1 client connection, and no more of RFC 9112 than that needs.

`http.client` would do, but loads TLS and the e-mail parser: a third of the time that a short
command line takes. What is not understood is a ConnectionError, like a lost connection.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from errno import EDQUOT, ENOSPC
from typing import BinaryIO, NamedTuple

from gpulayer.api.endpoints import Endpoint
from gpulayer.errors import StorageError

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

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.sock: socket.socket | None = None

    def exchange(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | BinaryIO | None,
        timeout: float,
        sink: BinaryIO | None = None,
    ) -> Answer:
        """Send and receive. A body that is a file needs a Content-Length among the headers. With
        `sink`, the body of a good answer is written there, from its start or where the answer says
        that it goes on, and `data` is empty.

        Raises TimeoutError after `timeout` seconds without a byte, and when the plane's backlog
        is full; ConnectionError or FileNotFoundError when nobody is there; what the endpoint
        refuses. What raises in the middle, Ctrl-C too, ends the connection: the next exchange
        shall not read this answer.
        """
        try:
            return self._exchange(method, path, headers, body, timeout, sink)
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
        sink: BinaryIO | None,
    ) -> Answer:
        if self.sock is None:
            self.sock = self._endpoint.connect(timeout)
            self._reader = self.sock.makefile("rb")
        self.sock.settimeout(timeout)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._endpoint.host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is None or isinstance(body, bytes):
            lines.append(f"Content-Length: {len(body or b'')}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if body is None or isinstance(body, bytes):
            self._send(head + (body or b""))
        else:
            self._send(head)
            while piece := body.read(PIECE_BYTES):
                self._send(piece)
        try:
            return self._receive(sink)
        except OSError as error:
            raise _lost(error) from error

    def _send(self, data: bytes) -> None:
        assert self.sock is not None
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise _lost(error) from error

    def _receive(self, sink: BinaryIO | None) -> Answer:
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
            length = _number(headers["content-length"], 10)
            if sink is not None and status in (200, 206):
                start = _first_byte(headers) if status == 206 else 0
                data = self._copied(length, sink, start)
            else:
                data = self._exactly(length)
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

    def _copied(self, size: int, sink: BinaryIO, start: int) -> bytes:
        sink.seek(start)
        sink.truncate()
        while size:
            piece = self._reader.read1(min(size, PIECE_BYTES))  # what came is kept, if no more does
            if not piece:
                raise ConnectionResetError("the connection ended within an answer")
            size -= len(piece)
            try:
                sink.write(piece)
            except OSError as error:  # the disk's fault, and no lost connection
                slug = "disk-full" if error.errno in (ENOSPC, EDQUOT) else "disk-error"
                raise StorageError(slug, f"cannot be written: {error.strerror}") from error
        return b""

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


def _lost(error: OSError) -> OSError:
    """What TLS and the network say in many ways, as the one that callers know."""
    if isinstance(error, ConnectionError | TimeoutError):
        return error
    return ConnectionResetError(str(error))


def _number(text: str, base: int) -> int:
    try:
        number = int(text, base)
    except ValueError:
        raise ConnectionError(f"not a length: {text[:40]!r}") from None
    if number < 0:
        raise ConnectionError(f"not a length: {text[:40]!r}")
    return number


def _first_byte(headers: Mapping[str, str]) -> int:
    """Of a part (RFC 9110, 14.4)."""
    said = headers.get("content-range", "").removeprefix("bytes ")
    return _number(said.partition("-")[0], 10)
