"""Starting, leaving and handing over, in the small."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpulayer._version import __version__
from gpulayer.sdk import local
from gpulayer.sdk.gate import Gate
from gpulayer.sdk.handover import refusal, take_seat
from gpulayer.sdk.places import Places
from gpulayer.sdk.seat import Seat, holder, is_held
from gpulayer.sdk.warden import Warden
from tests.support.clocks import FakeClock


@pytest.fixture
def places() -> Iterator[Places]:
    folder = tempfile.mkdtemp(prefix="g")
    places = Places(f"{folder}/home", f"{folder}/run/gpl-x")
    places.create()
    yield places
    shutil.rmtree(folder)


def test_one_process_has_the_seat(places: Places) -> None:
    seat = Seat.take(places)
    assert seat is not None
    assert Seat.take(places) is None
    seat.close()
    again = Seat.take(places)
    assert again is not None
    again.close()


class Watched(Places):
    """Tells when somebody has looked at its seat three times: who gives up has looked twice."""

    __slots__ = ("_looks", "seen")

    def __init__(self, places: Places) -> None:
        super().__init__(places.home, places.runtime)
        self._looks, self.seen = 0, threading.Event()

    @property
    def plane_lock(self) -> str:
        self._looks += 1
        if self._looks == 3:
            self.seen.set()
        return super().plane_lock


def test_a_seat_whose_holder_is_leaving_is_waited_for(places: Places) -> None:
    """It listens no more and has not let go: so a program's own plane follows one that leaves."""
    leaving = Seat.take(places)
    assert leaving is not None
    watched = Watched(places)
    with ThreadPoolExecutor(1) as pool:
        follows = pool.submit(take_seat, watched, "embedded")
        assert watched.seen.wait(60)
        leaving.close()
        seat, claim = follows.result(60)
    assert claim is None
    assert Seat.take(places) is None
    seat.close()


def test_the_seat_of_a_deleted_folder_is_none_and_brings_nothing_back(places: Places) -> None:
    shutil.rmtree(places.home)
    with pytest.raises(FileNotFoundError):
        Seat.take(places)
    assert not os.path.exists(places.home)


def test_a_seat_notices_that_its_folder_was_replaced(places: Places) -> None:
    seat = Seat.take(places)
    assert seat is not None
    seat.bind()
    assert seat.is_in_place()
    os.rename(places.plane_lock, places.plane_lock + ".old")
    Path(places.plane_lock).touch()
    assert not seat.is_in_place()
    seat.close()


def test_a_socket_is_never_found_bound_and_not_listening(places: Places) -> None:
    Path(places.plane_socket).touch()
    assert not local.answers(places.plane_socket)
    seat = Seat.take(places)
    assert seat is not None
    seat.bind()
    assert local.answers(places.plane_socket)
    assert os.listdir(places.runtime).count("p.sock") == 1
    seat.unlink()
    assert not local.answers(places.plane_socket)
    seat.rebind()
    assert local.answers(places.plane_socket)
    seat.close()
    assert not local.answers(places.plane_socket)


def test_a_full_backlog_is_somebody(places: Places) -> None:
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(places.plane_socket)
        busy.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for one in waiting:
            one.setblocking(False)
            try:
                one.connect(places.plane_socket)
            except BlockingIOError:
                pass
        assert local.answers(places.plane_socket)
        for one in waiting:
            one.close()


def test_the_holder_is_named_in_its_lock(places: Places) -> None:
    seat = Seat.take(places)
    assert seat is not None
    seat.announce("local")
    named = holder(places)
    assert (named["pid"], named["kind"], named["version"]) == (
        str(os.getpid()),
        "local",
        __version__,
    )
    assert named["runtime"] == places.runtime
    seat.close()


def test_a_forked_child_does_not_keep_the_home(places: Places) -> None:
    seat = Seat.take(places)
    assert seat is not None
    lives, says = os.pipe()
    waits, ends = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ends)
        os.write(says, b"!")
        os.read(waits, 1)
        os._exit(0)
    assert os.read(lives, 1) == b"!"
    seat.close()
    assert not is_held(places.plane_lock)
    for fd in (ends, lives, says, waits):
        os.close(fd)
    os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("mine", "version", "kind", "agreed"),
    [
        ("local", "999.0.0", "local", True),
        ("local", __version__, "local", False),
        ("local", "0.0.1", "local", False),
        ("local", __version__, "serve", True),
        ("local", __version__, "embedded", True),
        ("local", "0.0.1", "serve", False),
        ("serve", "999.0.0", "local", False),
        ("embedded", "999.0.0", "serve", False),
    ],
)
def test_a_home_is_handed_upward_only(mine: str, version: str, kind: str, agreed: bool) -> None:
    assert (refusal(mine, {"version": version, "kind": kind}) == "") is agreed


def test_stopping_where_nothing_runs_starts_nothing(places: Places) -> None:
    assert not local.stop(places)
    assert not is_held(places.plane_lock)


async def called(gate: Gate, path: str, method: str = "GET") -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    await gate({"type": "http", "path": path, "method": method}, receive, send)
    return sent


def test_heartbeats_are_no_activity_and_a_closing_gate_says_come_again() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    clock = FakeClock()
    gate = Gate(app, clock)

    async def story() -> None:
        clock.advance(5.0)
        await called(gate, "/v1/worker/report")
        assert gate.idle_seconds() == 5.0
        await called(gate, "/v1/jobs")
        assert gate.idle_seconds() == 0.0
        assert gate.served == 1
        gate.is_closing = True
        assert (await called(gate, "/v1/jobs"))[0]["status"] == 503
        assert gate.served == 1

    asyncio.run(story())


def test_a_plane_that_leaves_waits_for_what_clients_began_and_takes_nothing_more() -> None:
    """A job that was accepted after the last look would lose its agent and its supervisor."""

    async def story() -> None:
        accepting, answered = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["method"] == "POST":
                accepting.set()
                await answered.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        gate = Gate(app, FakeClock())
        submit = asyncio.create_task(called(gate, "/v1/jobs", "POST"))
        await accepting.wait()
        leaving = asyncio.create_task(gate.turn_clients_away())
        await asyncio.sleep(0)
        assert (await called(gate, "/v1/jobs"))[0]["status"] == 503
        assert (await called(gate, "/v1/worker/report"))[0]["status"] == 200
        assert not leaving.done()
        answered.set()
        assert (await submit)[0]["status"] == 200
        await leaving
        await gate.turn_clients_away()

    asyncio.run(story())


def test_an_agent_that_keeps_dying_is_started_ever_more_rarely_and_one_of_another_version_anew(
    places: Places,
) -> None:
    clock = FakeClock()
    started: list[float] = []
    ended: list[float] = []
    warden = Warden(
        places,
        clock,
        start=lambda: started.append(clock.monotonic()),
        end=lambda: ended.append(clock.monotonic()),
    )
    begun = clock.monotonic()
    for _ in range(40):
        warden.look()
        clock.advance(1.0)
    assert [at - begun for at in started] == [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]
    lock = os.open(f"{places.state}/agent.lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    clock.advance(60.0)
    warden.look()
    os.close(lock)
    clock.advance(0.1)
    warden.look()
    assert len(started) == 7
    assert ended == []
    lock = os.open(f"{places.state}/agent.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for version, ends in (("", 0), (__version__, 0), ("0.0.1", 1)):
        os.pwrite(lock, f"1.0\n{version}\n".ljust(30).encode(), 0)
        clock.advance(100.0)
        warden.look()
        assert len(ended) == ends
    assert len(started) == 8
    os.close(lock)
    del started[7:]
    warden.rest()
    clock.advance(100.0)
    warden.look()
    assert len(started) == 7
