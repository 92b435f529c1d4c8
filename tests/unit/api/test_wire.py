"""The client of a plane: what another version says, what is lost, what is refused."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator

import pytest

from gpulayer._version import WIRE
from gpulayer.api.wire import Wire
from gpulayer.errors import GPULayerError, NotFoundError, RefusedError, UnreachableError
from tests.support.http_server import Server


def answer(body: object, status: int = 200, wire: int = WIRE) -> bytes:
    data = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} X\r\nX-Gpulayer-Wire: {wire}\r\nX-Gpulayer-Version: 9.1\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="g") as made:
        yield made


def call(folder: str, *answers: bytes, tries: int = 3) -> object:
    server = Server(folder, *answers)
    wire = Wire(server.path, tries=tries)
    try:
        return wire.call("GET", "/v1/version")
    finally:
        wire.close()
        server.close()


def test_a_plane_of_another_wire_is_refused_before_its_body_is_read(folder: str) -> None:
    with pytest.raises(RefusedError) as refused:
        call(folder, answer({"anything": []}, wire=WIRE + 1))
    assert refused.value.code == "version-mismatch"
    assert "9.1" in str(refused.value)
    assert refused.value.help == ("gpulayer stop",)


def test_the_planes_own_error_is_raised_as_it_is(folder: str) -> None:
    body = {"error": {"code": "job-not-found", "message": "no", "hint": ["gpulayer ps -a"]}}
    with pytest.raises(NotFoundError) as raised:
        call(folder, answer(body, 404))
    assert raised.value.help == ("gpulayer ps -a",)


def test_an_error_that_is_none_of_ours_keeps_its_words(folder: str) -> None:
    with pytest.raises(GPULayerError) as raised:
        call(folder, answer("a proxy speaks", 502))
    assert raised.value.code == "internal"
    assert "a proxy speaks" in raised.value.why


def test_a_lost_answer_is_asked_for_again(folder: str) -> None:
    assert call(folder, b"HTTP/1.1 200 OK\r\n", answer({"ok": 1})) == {"ok": 1}


def test_nobody_there_is_unreachable(folder: str) -> None:
    with pytest.raises(UnreachableError) as raised:
        Wire(os.path.join(folder, "none"), tries=2).call("GET", "/v1/version")
    assert raised.value.code == "plane-unreachable"
