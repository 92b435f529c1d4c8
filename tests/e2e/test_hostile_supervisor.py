"""What the supervisor does with bytes that no client of ours sends. It lives, forgets what was
sent, keeps no descriptor, says nothing in its log, and the next honest job runs as ever."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.runtime import frames
from tests.support.supervisor import Screen, SupervisorHome, eventually
from tests.support.wrong_values import places_in, replaced

pytestmark = pytest.mark.e2e

WRONG: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    10**40,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\0",
    "\ud800",
    "../x",
    "A" * 5_000,
    [],
    [1],
    [[[]]],
    {},
    {"a": 1},
)
QUICK_SECONDS = 20.0
"""Who waits for the others would wait for ever; a busy machine takes a second or two."""
ROOM_KIB = 16 << 10
"""More than this is not flat. (CPython keeps some of what it once used.)"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SupervisorHome]:
    with SupervisorHome(tmp_path) as home:
        yield home


@pytest.fixture
def honest(home: SupervisorHome) -> Iterator[frames.Connection]:
    """An agent that is served before, during and after; then no descriptor is left over."""
    agent = home.connect("agent")
    assert home.run(agent, "echo", "before").said() == b"before\n"
    before = descriptors(home)
    yield agent
    assert home.run(agent, "echo", "after").said() == b"after\n"
    for task in agent.call("list")["tasks"]:
        agent.call("cancel", task_id=task["task_id"], mode="kill", grace_seconds=0)
    eventually(lambda: forgotten(agent))
    eventually(lambda: descriptors(home) <= before)


def forgotten(agent: frames.Connection) -> bool:
    for task in agent.call("list")["tasks"]:
        with contextlib.suppress(frames.Refused):
            agent.call("forget", task_id=task["task_id"])
    return not agent.call("list")["tasks"]


def descriptors(home: SupervisorHome) -> int:
    assert home.process is not None
    return len(os.listdir(f"/proc/{home.process.pid}/fd"))


def memory_kib(home: SupervisorHome) -> int:
    assert home.process is not None
    lines = Path(f"/proc/{home.process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def stranger(home: SupervisorHome) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    sock.connect(home.socket)
    return sock


def say(home: SupervisorHome, *data: bytes) -> bytes:
    """The first bytes of an answer; none where the connection was closed."""
    with stranger(home) as sock:
        with contextlib.suppress(BrokenPipeError):
            for part in data:
                sock.sendall(part)
        with contextlib.suppress(ConnectionResetError):
            return sock.recv(1 << 16)
    return b""


def message(value: Any) -> bytes:
    return frames.encode(frames.JSON, json.dumps(value).encode())


def requests(home: SupervisorHome) -> list[dict[str, Any]]:
    """A good request of each kind."""
    envelope = home.envelope(rlimits={"NOFILE": [99, 99]}, nice=0, affinity=[0], ignored_signals=[])
    streams = {"0": "null", "1": "pipe", "2": "pipe"}
    screen = {"attrs": [0, 0, 0, 0, 0, 0, [0] * 32], "rows": 1, "cols": 2}
    task = {"rank": 0, "environ": {"PATH": "/bin"}, "redact": [["N", "a value"]], "argv0": "true"}
    return [
        {"op": "hello", "role": "client", "wire": 1, "version": "0"},
        {"op": "envelope", "envelope": envelope, "keep": True},
        {
            "op": "attach",
            "envelope": envelope,
            "streams": streams,
            "merged": False,
            "mode": "plain",
        },
        {
            "op": "attach",
            "envelope": envelope,
            "streams": dict.fromkeys(streams, "terminal"),
            "mode": "terminal",
            "terminal": screen,
        },
        {"op": "start", "task": home.task("/bin/true", **task)},
        {"op": "cancel", "task_id": "task1", "mode": "term", "grace_seconds": 1, "reason": "x"},
        {"op": "tail", "task_id": "task1", "offset": 0, "max_bytes": 10},
        {"op": "forget", "task_id": "nobody"},
        {"op": "environ", "envelope_id": "x", "names": ["a"]},
        {"op": "drop", "envelope_ids": ["x"]},
        {"op": "signal", "signum": 2, "target": "group"},
        {"op": "winsize", "rows": 1, "cols": 2},
        {"op": "closed", "stream": 1},
        {"op": "kill"},
        {"op": "list"},
    ]


def test_every_wrong_value_of_every_request_is_answered(
    home: SupervisorHome, honest: frames.Connection
) -> None:
    for request in requests(home):
        for place in places_in(request):
            for number, wrong in enumerate(WRONG):
                bad = replaced(request, place, wrong)
                if not isinstance(bad, dict):
                    assert say(home, message(bad)) == b""
                    continue
                bad["seq"] = 1
                task = bad.get("task")
                if isinstance(task, dict) and place != ("task", "task_id"):
                    task["task_id"] = f"w{number}" + "".join(map(str, place))
                assert b'"seq":1' in say(home, message(bad)), bad


def test_an_attach_that_is_wrong_never_hurts_the_one_who_starts(
    home: SupervisorHome, honest: frames.Connection
) -> None:
    good = requests(home)[3]
    used = [place for place in places_in(good) if place[:1] in (("streams",), ("terminal",))]
    for number, place in enumerate(used):
        for count, wrong in enumerate(WRONG):
            bad = replaced(good, place, wrong)
            with stranger(home) as sock:
                name = f"a{number}.{count}"
                sock.sendall(message({**bad, "seq": 1, "attach_id": name}))
                if b'"ok":true' not in sock.recv(1 << 16):
                    continue
                task = home.task("/bin/true", attach_id=name, environ={}, stdin="attach")
                with contextlib.suppress(frames.Refused):
                    assert honest.call("start", task=task)["pid"]


def test_random_bytes(home: SupervisorHome, honest: frames.Connection) -> None:
    dice = random.Random(7)
    for _ in range(300):
        say(home, dice.randbytes(dice.randrange(1, 2_000)) + b"\xff" * 5)
    for kind in b"J12TIL?\xff\0":
        body = dice.randbytes(100)
        with stranger(home) as sock, contextlib.suppress(BrokenPipeError):
            sock.sendall(frames.HEADER.pack(len(body), bytes((kind,))) + body)


@pytest.mark.parametrize(
    "data",
    [
        frames.HEADER.pack(frames.MAX_JSON + 1, b"J"),
        frames.HEADER.pack(frames.MAX_PAYLOAD + 1, b"I"),
        frames.HEADER.pack(2**32 - 1, b"J"),
        frames.encode("J", b"[" * 100_000),
        frames.encode("J", b'{"op": "list", "seq": ' + b"9" * 10_000 + b"}"),
        frames.encode("J", b"\xff\xfe{}"),
        frames.encode("J", b""),
        frames.encode("1", b"output from a client"),
    ],
    ids=["json too long", "input too long", "4 GiB", "deep", "digits", "bytes", "empty", "output"],
)
def test_what_is_no_frame_ends_the_connection(
    home: SupervisorHome, honest: frames.Connection, data: bytes
) -> None:
    assert say(home, data) == b""


def test_the_longest_frame_is_still_read(home: SupervisorHome, honest: frames.Connection) -> None:
    padding = frames.MAX_JSON - len(json.dumps({"op": "list", "seq": 1, "x": ""}))
    body = json.dumps({"op": "list", "seq": 1, "x": "A" * padding}).encode()
    assert len(body) == frames.MAX_JSON
    assert b'"ok":true' in say(home, frames.encode("J", body))


def test_descriptors_that_nobody_asked_for_are_closed(
    home: SupervisorHome, honest: frames.Connection
) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        for names in (
            [],
            ["stdin"],
            ["a", "a"],
            ["stdin"] * 8,
            [None],
            [[]],
            {"x": 1},
            5,
            ["q"] * 3,
        ):
            request = message({"op": "list", "seq": 1, "fds": names})
            for given in (1, 3, 8, 60):
                with stranger(home) as sock:
                    frames.send_with_fds(sock, request, [null] * given)
                    with contextlib.suppress(ConnectionResetError):
                        sock.recv(1 << 16)
    finally:
        os.close(null)


def test_a_thousand_idle_clients(home: SupervisorHome, honest: frames.Connection) -> None:
    half = message({"op": "list", "seq": 1})
    with contextlib.ExitStack() as held:
        for number in range(1_000):
            sock = held.enter_context(stranger(home))
            sock.sendall(half[: number % 9])
        began = time.monotonic()
        assert home.run(honest, "echo", "well").said() == b"well\n"
        assert time.monotonic() - began < QUICK_SECONDS


def test_a_client_that_asks_and_never_reads(
    home: SupervisorHome, honest: frames.Connection
) -> None:
    for _ in range(20):
        home.run(honest, "true")
    before = memory_kib(home)
    request = message({"op": "list", "seq": 1}) * 1_000
    with stranger(home) as sock:
        sock.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            for _ in range(200):
                sock.sendall(request)
        assert home.run(honest, "echo", "well").said() == b"well\n"
        assert memory_kib(home) - before < ROOM_KIB


def test_a_watcher_that_never_reads_a_flood(
    home: SupervisorHome, honest: frames.Connection
) -> None:
    before = memory_kib(home)
    with contextlib.closing(Screen(home).connection) as watcher:
        screen = Screen(home)
        flood = screen.start(home, honest, "sh", "-c", "exec head -c 300000000 /dev/zero")
        for _ in range(5):
            began = time.monotonic()
            assert home.run(honest, "echo", "well").said() == b"well\n"
            assert time.monotonic() - began < QUICK_SECONDS
        assert memory_kib(home) - before < ROOM_KIB
        screen.say("kill")
        screen.leave()
        assert home.follow(honest, flood).exit["signal"] == 9
        assert watcher.fileno() >= 0
