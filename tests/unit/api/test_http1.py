"""Answers of HTTP/1.1 as servers may send them: whole, in chunks, without a length, cut off."""

from __future__ import annotations

import io
import os
import socket
import tempfile
from collections.abc import Iterator

import pytest

from gpulayer.api.endpoints import Unix
from gpulayer.api.http1 import Connection
from tests.support.http_server import Server


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="g") as made:
        yield made


def ask(folder: str, *answers: bytes, body: bytes | io.BytesIO | None = None, times: int = 1):  # type: ignore[no-untyped-def]
    server = Server(folder, *answers)
    connection = Connection(Unix(server.path))
    headers = {"X": "1"}
    if isinstance(body, io.BytesIO):
        headers["Content-Length"] = str(len(body.getvalue()))
    try:
        found = [connection.exchange("GET", "/a", headers, body, 10.0) for _ in range(times)]
    finally:
        connection.close()
        server.close()
    return found, server.received


OK = b"HTTP/1.1 200 OK\r\nX-Word: yes\r\nContent-Length: 5\r\n\r\nhello"


def test_one_connection_carries_several_exchanges(folder: str) -> None:
    found, received = ask(folder, OK, OK, times=2)
    assert [(a.status, a.headers["x-word"], a.data, a.will_close) for a in found] == [
        (200, "yes", b"hello", False)
    ] * 2
    assert received[0].startswith(b"GET /a HTTP/1.1\r\nHost: localhost\r\nX: 1\r\n")


@pytest.mark.parametrize(
    ("answer", "data", "closes"),
    [
        ((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
         b"3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n"), b"abcde", False),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", b"a", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", b"a", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
         b"", False),
        (b"HTTP/1.1 204 No Content\r\nX-Content-Length: 9\r\n\r\n", b"", False),
    ],
)  # fmt: skip
def test_bodies_end_where_they_say(folder: str, answer: bytes, data: bytes, closes: bool) -> None:
    found, _ = ask(folder, answer)
    assert (found[0].data, found[0].will_close) == (data, closes)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX-Content-Length",
        b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX-not-Content-Length: " + b"9" * 70_000,
    ],
    ids=["cut head", "negative", "no number", "no http", "nothing", "many headers", "long line"],
)
def test_what_is_not_understood_is_a_lost_connection(folder: str, answer: bytes) -> None:
    with pytest.raises(ConnectionError):
        ask(folder, answer)


def test_a_body_that_is_cut_off_is_a_lost_connection(folder: str) -> None:
    server = Server(folder, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
    connection = Connection(Unix(server.path))
    with pytest.raises(ConnectionResetError):
        connection.exchange("GET", "/", {}, None, 10.0)
    connection.close()
    server.close()


def test_a_file_goes_out_in_pieces(folder: str) -> None:
    body = io.BytesIO(b"x" * 3_000_000)
    _, received = ask(folder, OK, body=body)
    assert received[0].endswith(b"x" * 3_000_000)


def test_nobody_there_is_said_as_it_is(folder: str) -> None:
    with pytest.raises(FileNotFoundError):
        Connection(Unix(os.path.join(folder, "none"))).exchange("GET", "/", {}, None, 1.0)


def test_silence_is_a_timeout(folder: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(folder, "silent")
        listener.bind(path)
        listener.listen()
        connection = Connection(Unix(path))
        with pytest.raises(TimeoutError):
            connection.exchange("GET", "/", {}, None, 0.05)
        connection.close()


def test_an_exchange_that_was_not_ended_leaves_its_answer_to_nobody(folder: str) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(os.path.join(folder, "s"))
        silent.listen()
        connection = Connection(Unix(os.path.join(folder, "s")))
        with pytest.raises(TimeoutError):
            connection.exchange("GET", "/a", {}, None, 0.01)
        assert connection.sock is None
