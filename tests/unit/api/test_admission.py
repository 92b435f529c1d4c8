"""More submissions at once than the plane takes: each is accepted or told to come back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gpulayer.api.admission import Admission
from gpulayer.api.handlers import Handlers
from gpulayer.api.listener import PRIVATE
from gpulayer.api.server import App
from gpulayer.api.wire import Wire
from gpulayer.errors import RefusedError
from tests.support.http_server import Server
from tests.support.served_plane import Host, ServedPlane

SUBMITS = 1_000
SPEC = {"name": "j", "workload": {"kind": "command", "command": ["true"]}}


def test_a_limit_holds_and_is_free_again() -> None:
    room = Admission(calls=2, body_bytes=100)
    with room.entered(10), room.entered(10):
        with pytest.raises(RefusedError, match="2 submissions") as refused, room.entered(1):
            pass
        assert refused.value.code == "plane-busy"
    with room.entered(90):
        with pytest.raises(RefusedError), room.entered(11):
            pass
        with room.entered(10):
            pass
    with room.entered(10_000):
        pass  # one alone is let in, however large


async def _submit(app: App, key: int) -> tuple[int, dict[str, str], Any]:
    body = json.dumps({"spec": SPEC, "idempotency_key": str(key)}).encode()
    sent: list[dict[str, Any]] = []
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return incoming.pop()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    path = "/v1/jobs"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
    scope |= {"query_string": b"", "headers": [], "client": None, "state": {PRIVATE: True}}
    await app(scope, receive, send)
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, json.loads(sent[1]["body"])


def test_of_very_many_at_once_none_is_lost(tmp_path: Path) -> None:
    plane = ServedPlane(tmp_path)
    try:
        handlers = Handlers(plane.plane, plane.artifacts, Host(str(tmp_path)))
        app = App(handlers, Admission(calls=100))

        async def all_at_once() -> list[tuple[int, dict[str, str], Any]]:
            return await asyncio.gather(*(_submit(app, key) for key in range(SUBMITS)))

        answers = asyncio.run(all_at_once())
        accepted = {body["id"] for status, _, body in answers if status == 200}
        refused = [(headers, body) for status, headers, body in answers if status == 429]
        assert len(accepted) + len(refused) == SUBMITS
        assert len(accepted) >= 100
        assert len(refused) > 0
        assert {job["id"] for job in plane.plane.jobs()} == accepted
        for headers, body in refused:
            assert (headers["retry-after"], body["error"]["code"]) == ("1", "plane-busy")
    finally:
        plane.close()


def _answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "X-Gpulayer-Wire: 1", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


BUSY = json.dumps({"error": {"code": "plane-busy", "message": "busy"}}).encode()


def test_a_client_comes_back_when_it_is_told_to(tmp_path: Path) -> None:
    busy = _answer("429 Too Many Requests", BUSY, "Retry-After: 1")
    server = Server(str(tmp_path), busy, _answer("200 OK", b"{}"))
    try:
        wire = Wire(server.path)
        assert wire.call("POST", "/v1/jobs", {"spec": SPEC}) == {}
        assert server.received[0] == server.received[1], "the same call, with the same key"
        wire.close()
    finally:
        server.close()


def test_without_a_time_it_is_told_at_once(tmp_path: Path) -> None:
    server = Server(str(tmp_path), _answer("429 Too Many Requests", BUSY))
    try:
        wire = Wire(server.path)
        with pytest.raises(RefusedError) as refused:
            wire.call("POST", "/v1/jobs", {"spec": SPEC})
        assert refused.value.code == "plane-busy"
        wire.close()
    finally:
        server.close()
