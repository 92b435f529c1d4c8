"""Live events and logs: what arrives, where a reader goes on, and that it ends."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from gpulayer.api import sse
from gpulayer.api.handlers import Handlers
from gpulayer.api.server import App
from gpulayer.contracts.ids import JobId
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.errors import RefusedError
from gpulayer.runtime import segments
from tests.support.app import ask
from tests.support.env import Env
from tests.support.served_plane import FINISH_SECONDS, Host, ServedPlane

STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def env() -> Iterator[Env]:
    with Env(eager=True) as env:
        yield env


@pytest.fixture
def app(env: Env, tmp_path: Path) -> App:
    return App(Handlers(env.plane, env.artifacts, Host(str(tmp_path))))


def messages(text: str) -> list[tuple[str, str, Any]]:
    """(id, event, data) of each message; comments and settings are left out."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if "data" in fields:
            found.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return found


def done(env: Env, *records: bytes) -> str:
    job = env.submit()
    log = b"".join(segments.encode(segments.STDOUT, 0, 0, 1.5, data) for data in records)
    env.run(env.worker(), job, log=log)
    return job


def test_the_story_of_an_ended_job_and_its_end(env: Env, app: App) -> None:
    job = done(env)
    told = ask(app, "GET", f"/v1/jobs/{job}/events", headers=STREAM)
    assert told.headers["content-type"].startswith("text/event-stream")
    found = messages(told.text)
    assert [kind for _, kind, _ in found] == ["submitted", "placed", "started", "finished", "end"]
    assert [id_ for id_, _, _ in found[:-1]] == ["1", "2", "3", "4"]
    assert found[0][2] == env.plane.events(job)[0]


@pytest.mark.parametrize("after", range(5))
def test_a_reader_goes_on_behind_what_it_has(env: Env, app: App, after: int) -> None:
    job = done(env)
    headers = {**STREAM, "Last-Event-ID": str(after)}
    found = messages(ask(app, "GET", f"/v1/jobs/{job}/events", headers=headers).text)
    assert [id_ for id_, _, _ in found] == [str(n) for n in range(after + 1, 5)] + [""]


def test_a_log_record_by_record_from_any_of_its_ids(env: Env, app: App) -> None:
    job = done(env, b"one\n", b"\xff\xfe", "zwölf\n".encode())
    found = messages(ask(app, "GET", f"/v1/jobs/{job}/logs", headers=STREAM).text)
    assert [data.get("text") for _, kind, data in found if kind == "log"] == [
        "one\n",
        None,
        "zwölf\n",
    ]
    assert base64.b64decode(found[1][2]["base64"]) == b"\xff\xfe"
    assert found[0][2]["stream"] == "stdout"
    for n, (id_, _, _) in enumerate(found[:-1]):
        headers = {**STREAM, "Last-Event-ID": id_}
        rest = messages(ask(app, "GET", f"/v1/jobs/{job}/logs", headers=headers).text)
        assert rest == found[n + 1 :]


def test_a_log_longer_than_one_answer_is_told_whole(env: Env, app: App) -> None:
    pieces = [bytes([65 + n]) * 700_000 for n in range(6)]
    job = env.submit()
    worker = env.worker()
    worker.acquire()
    task = env.live_task(job)
    log = b"".join(segments.encode(segments.STDOUT, 0, 0, 1.5, data) for data in pieces)
    env.logs.append(JobId(job), task.id, 0, log)
    worker.start(job)
    worker.finish(job)
    found = messages(ask(app, "GET", f"/v1/jobs/{job}/logs", headers=STREAM).text)
    assert [data["text"] for _, kind, data in found if kind == "log"] == [
        piece.decode() for piece in pieces
    ]


def test_an_id_that_no_message_had_ends_the_stream(env: Env, app: App) -> None:
    job = done(env, b"one\n" * 100)
    told = ask(app, "GET", f"/v1/jobs/{job}/logs", headers={**STREAM, "Last-Event-ID": "7"})
    assert messages(told.text) == [("", "end", {})]


def test_a_job_that_nobody_knows_is_an_error_and_no_stream(app: App) -> None:
    told = ask(app, "GET", "/v1/jobs/nobody/events", headers=STREAM)
    assert (told.status, told.json()["error"]["code"]) == (404, "job-not-found")


def pieces_of(stream: sse.Stream, wakeups: Wakeups, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        found = sse.body(stream, wakeups, keep_alive=0.01)
        return [await anext(found) for _ in range(count)]

    return asyncio.run(read())


def test_a_quiet_stream_is_kept_alive() -> None:
    quiet = sse.Stream(("t",), 0, lambda after: ([], after, False))
    pieces = pieces_of(quiet, Wakeups(), 3)
    assert pieces == [b"retry: 1000\n\n", b": keep-alive\n\n", b": keep-alive\n\n"]


def test_a_right_that_is_taken_away_ends_it_with_a_reason() -> None:
    def look(after: int) -> Any:
        raise RefusedError("unauthorized", "revoked")

    told = pieces_of(sse.Stream(("t",), 0, look), Wakeups(), 2)[1]
    assert messages(told.decode()) == [
        ("", "error", {"error": {"code": "unauthorized", "message": "revoked"}})
    ]


class Reader:
    """Reads a stream over a real socket, message by message."""

    def __init__(self, path: str, target: str, last_id: str = "") -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(FINISH_SECONDS)
        self._sock.connect(path)
        head = f"GET {target} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
        head += f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        self._sock.sendall((head + "\r\n").encode())
        self._file: BinaryIO = self._sock.makefile("rb")

    def next(self) -> tuple[str, str]:
        """(id, event); ("", "") where the stream ends without a word."""
        fields: dict[bytes, bytes] = {}
        for line in self._file:
            name, _, value = line.strip().partition(b": ")
            fields[name] = value
            if not line.strip() and b"data" in fields:
                return fields.get(b"id", b"").decode(), fields[b"event"].decode()
        return "", ""

    def close(self) -> None:
        self._file.close()
        self._sock.close()


def test_news_arrives_at_once_and_a_reader_that_was_cut_off_misses_nothing(tmp_path: Path) -> None:
    plane = ServedPlane(tmp_path)
    try:
        plane.serve()
        job = plane.submit()
        reader = Reader(plane.socket, f"/v1/jobs/{job}/events")
        assert reader.next() == ("1", "submitted")
        reader.close()
        plane.plane.cancel(job).result(FINISH_SECONDS)
        again = Reader(plane.socket, f"/v1/jobs/{job}/events", last_id="1")
        assert again.next() == ("2", "finished")
        assert again.next() == ("", "end")
        again.close()
        live = plane.submit()
        reader = Reader(plane.socket, f"/v1/jobs/{live}/events")
        assert reader.next() == ("1", "submitted")
        plane.plane.cancel(live).result(FINISH_SECONDS)
        assert reader.next() == ("2", "finished")
        reader.close()
        waiting = Reader(plane.socket, f"/v1/jobs/{plane.submit()}/events")
        assert waiting.next() == ("1", "submitted")
        plane.hang_up()
        assert waiting.next() == ("", ""), "the plane went, without saying that it is over"
        waiting.close()
    finally:
        plane.close()
