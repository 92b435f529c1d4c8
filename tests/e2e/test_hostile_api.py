"""What a plane answers to bytes that no client of ours sends: a refusal, and nothing has changed.

Every body of every route with one value replaced by each of a list of wrong ones; paths, queries,
methods and headers that try to mean something else; hundreds of requests that never end.
"""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.api import credentials
from gpulayer.api.routes import JSON_BYTES
from gpulayer.clock import SystemIds
from gpulayer.contracts.principals import CredentialKind
from tests.support.local_home import LocalHome
from tests.support.wrong_values import places_in, replaced

pytestmark = pytest.mark.e2e

KINDS = (CredentialKind.JOIN, CredentialKind.CLIENT, CredentialKind.WORKER)

WRONG: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    10**40,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\0",
    "\ud800",
    "\x1b[31m",
    "A" * 100_000,
    [],
    [1],
    [[[]]],
    {},
    {"__class__": "x"},
)
REFUSALS = {501, 503, 507}
"""Statuses from 500 up that say no more than no: not built, handing over, disk."""
QUICK_SECONDS = 30.0
"""What grows with the square of its input takes minutes; a busy machine takes a second or two."""


class Door:
    """The plane's socket, spoken to in bytes."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, data: bytes) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(self.path)
        sock.sendall(data)
        return sock

    def say(self, data: bytes) -> tuple[int, bytes]:
        """Status and body of the one answer; status 0 where the connection was closed."""
        with self.open(data) as sock:
            answer = b""
            while not _is_whole(answer):
                try:
                    part = sock.recv(1 << 16)
                except ConnectionResetError:
                    part = b""
                if not part:
                    break
                answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        return (int(head.split()[1]), body) if head else (0, b"")

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        return self.say(head.encode("latin-1") + body)


def _is_whole(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    lengths = [line[15:] for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"]
    return bool(found) and len(body) >= (int(lengths[0]) if lengths else 0)


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        home.run("true", check=0)
        yield home


@pytest.fixture
def door(home: LocalHome) -> Iterator[Door]:
    """Afterwards the same plane is there, has written no traceback, and runs jobs."""
    plane = home.pid("plane")
    yield Door(home.places.plane_socket)
    assert home.pid("plane") == plane
    assert "Traceback" not in home.last_words()
    assert home.run("echo", "well", check=0).stdout == b"well\n"


def ids(home: LocalHome) -> list[str]:
    """Which jobs there are. Some of them may be on their way to their end."""
    return [job["id"] for job in home.jobs()]


def bodies(home: LocalHome) -> dict[str, dict[str, Any]]:
    """A good body of each route that takes one."""
    job = home.jobs()[-1]
    worker = home.wire().call("GET", "/v1/workers")["workers"][0]
    device = {"uuid": "GPU-1", "index": 0, "vendor": "nvidia", "name": "x", "model": "x"}
    device |= {"memory_gb": 1.0, "memory_kind": "dedicated", "foreign_pids": [1]}
    facts = {**worker["capabilities"], "cpu_cores": 0.001, "gpus": [device]}
    facts["interpreters"] = facts["interpreters"][:1]
    submission = {"spec": job["spec"], "origin": job["origin"], "envelope_id": "ab" * 32}
    held = [{"task_id": "t", "fence": 1, "phase": "running"}]
    ending = {
        "outcome": "succeeded",
        "reason": "exited",
        "message": "m",
        "exit_code": 0,
        "signal": None,
        "started_at": 1.0,
        "ended_at": 2.0,
        "value": "1",
        "error": {},
        "outputs": [{"path": "a", "digest": "ab" * 32, "size": 1}],
        "usage": {},
    }
    news = {"task_id": "t", "fence": 1, "phase": "exited", "started_at": 1.0, "exit": ending}
    me = {"worker_id": "other", "incarnation": 1, "seq": 1}
    return {
        "/v1/plan": submission,
        "/v1/jobs": {**submission, "idempotency_key": "one"},
        "/v1/jobs/batch": {
            "jobs": [{"spec": job["spec"], "idempotency_key": "two"}],
            "origin": job["origin"],
        },
        "/v1/jobs/last/cancel": {"mode": "term", "grace_seconds": 1},
        "/v1/jobs/last/retry": {**submission, "idempotency_key": "three"},
        "/v1/gc": {"dry_run": True, "older_than": 1.0},
        "/v1/takeover": {"socket": "/nowhere", "version": "0.0", "kind": "local"},
        "/v1/worker/register": {
            "worker_id": "other",
            "name": "other",
            "nonce": "n",
            "target": "pool",
            "seq": 1,
            "capabilities": facts,
            "inventory": held,
        },
        "/v1/worker/report": {
            **me,
            "inventory": held,
            "tasks": [{**news, "log_size": 0, "log": ""}],
            "capabilities": facts,
            "load": {},
        },
        "/v1/worker/acquire": {**me, "park_seconds": 0},
        **rights(),
    }


def rights() -> dict[str, dict[str, Any]]:
    """The same of the routes that hand out rights."""
    code, client, session = (credentials.make(kind, SystemIds()).reveal() for kind in KINDS)
    grant = {"role": "viewer", "name": "x", "ttl_seconds": 60.0, "labels": {"a": "b"}}
    return {
        "/v1/enrol": {
            "code": code,
            "token": session,
            "name": "x",
            "previous": session,
            "may_rename": True,
        },
        "/v1/invites": {**grant, "code": code, "uses": 1, "mine": False},
        "/v1/tokens": {**grant, "token": client, "mine": True},
        "/v1/workers/other/label": {"labels": {"a": "b"}},
        "/v1/worker/renew": {"worker_id": "other", "token": session},
    }


def test_no_value_in_any_body_is_a_fault_of_the_plane(home: LocalHome, door: Door) -> None:
    seq, faults = 1, []
    for path, good in bodies(home).items():
        for place in places_in(good):
            for wrong in WRONG:
                if place == ("dry_run",) and not wrong:
                    continue  # it would really collect
                body = replaced(good, place, wrong)
                if isinstance(body, dict) and "seq" in good and place != ("seq",):
                    body["seq"] = seq = seq + 1
                began = time.monotonic()
                status, answer = door.ask("POST", path, json.dumps(body).encode())
                is_slow = time.monotonic() - began > QUICK_SECONDS
                if (status >= 500 and status not in REFUSALS) or not status or is_slow:
                    faults.append((path, place, repr(wrong)[:40], status, answer[:200]))
    assert not faults


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"spec": {"a": NaN}}',
        b'{"spec": Infinity}',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b"[1]",
        b'"spec"',
        b'{"origin": {}, "spec": {"name": "a", "name": "a"}}',
        b'{"spec": {"n": ' + b"9" * 10_000 + b"}}",
        b'{"spec": {"name": "' + b"A" * (10 << 20) + b'"}}',
    ],
    ids=lambda body: body[:24].decode("latin-1"),
)
def test_what_is_no_request_is_refused(home: LocalHome, door: Door, body: bytes) -> None:
    before = ids(home)
    status, answer = door.ask("POST", "/v1/jobs", body)
    assert 400 <= status < 500
    assert json.loads(answer)["error"]["message"]
    assert ids(home) == before


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/plan", "/v1/jobs/last/retry"])
def test_one_job_is_read_up_to_its_limit_and_no_further(door: Door, path: str) -> None:
    """So that what no spec may hold is never parsed."""
    spec = b'{"spec": {"workload": {"kind": "command", "command": ["true"]}}'
    for more in (-1, 0, 1):
        status, answer = door.ask("POST", path, spec.ljust(JSON_BYTES + more - 1) + b"}")
        is_too_large = json.loads(answer).get("error", {}).get("code") == "too-large"
        assert (status == 413, is_too_large) == (more == 1, more == 1)


QUERIES = [
    *(f"offset={n}" for n in ("-1", "1e9", "9" * 30, "9" * 10_000, "%00", "%FF")),
    *(f"wait={n}" for n in ("nan", "-inf", "-5", "x", "")),
    *(f"after={n}" for n in ("-1", "9" * 30, "x")),
    *(f"limit={n}" for n in ("-1", "0", "9" * 30, "x")),
    "name=%ED%A0%80",
    "name=' OR 1=1 --",
    "a=1&a=2",
    "&&&",
]
LOOKS = ["/v1/jobs", "/v1/jobs/last", "/v1/jobs/last/logs", "/v1/jobs/last/events", "/v1/results"]


@pytest.mark.parametrize("path", LOOKS)
def test_a_wrong_query_is_answered_at_once(door: Door, path: str) -> None:
    for query in QUERIES:
        began = time.monotonic()
        status, answer = door.ask("GET", f"{path}?{query}".replace(" ", "%20"))
        assert 200 <= status < 500, (query, answer)
        assert time.monotonic() - began < QUICK_SECONDS, query


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/../jobs",
        "/v1/jobs/%2e%2e",
        "/v1/jobs/%252e",
        "/v1/jobs/%2Fetc%2Fpasswd",
        "/v1/jobs/%00",
        "/v1/jobs/%ff",
        "/v1/jobs/%ED%A0%80",
        "/v1/jobs/a%0d%0ab",
        "/v1/jobs/%25",
        "/v1/jobs/_",
        "//v1/jobs",
        "/v1/jobs\\x",
        "/v1/artifacts/sha256/..%2f..%2fdb.sqlite",
        "/v1/artifacts/sha256/" + "A" * 64,
        "/v1/artifacts/sha256/" + "a" * 63,
        "/v1/artifacts/sha256/" + "a" * 64,
        "/v1/jobs/" + "a" * 50_000,
        "/",
        "/v2/jobs",
    ],
    ids=lambda path: path[:40],
)
def test_what_is_not_there_is_not_found(door: Door, path: str) -> None:
    status, _ = door.ask("GET", path)
    assert status in (400, 404, 422)


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD", "PUT", "FOO"])
def test_another_method_changes_nothing(home: LocalHome, door: Door, method: str) -> None:
    before = ids(home)
    for path in ("/v1/jobs", "/v1/stop", "/v1/gc", "/v1/jobs/last/cancel"):
        with door.open(
            f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-HTTP-Method-Override: POST\r\n"
            "Content-Length: 2\r\nConnection: close\r\n\r\n{}".encode()
        ) as sock:
            status = sock.recv(1 << 16).split(b" ", 2)[1]
        assert status in (b"200", b"400", b"404", b"405")
        assert status != b"200" or (method, path) == ("HEAD", "/v1/jobs")
    assert ids(home) == before


LENGTHS = [
    b"Content-Length: -5",
    b"Content-Length: +5",
    b"Content-Length: 5_0",
    b"Content-Length: 0x5",
    b"Content-Length: " + b"9" * 40,
    b"Content-Length: 2\r\nContent-Length: 3",
    b"Content-Length: 2\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, identity",
]


@pytest.mark.parametrize("header", LENGTHS, ids=lambda header: header.decode()[:40])
def test_a_length_of_two_meanings_gets_one_answer(
    home: LocalHome, door: Door, header: bytes
) -> None:
    before = ids(home)
    inner = b"POST /v1/stop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
    request = b"POST /v1/plan HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n{}" + inner
    with door.open(request) as sock:
        sock.shutdown(socket.SHUT_WR)
        answers = b""
        while part := sock.recv(1 << 16):
            answers += part
    assert b"stopping" not in answers
    assert answers.count(b"HTTP/1.1 ") <= 2
    assert not answers or answers.split(b" ", 2)[1][:1] == b"4"
    assert ids(home) == before


def test_an_artifact_is_its_digest(home: LocalHome, door: Door) -> None:
    uploads = home.folder / "home" / "artifacts"
    before = sorted(str(path) for path in uploads.rglob("*"))
    for digest in ("0" * 64, hashlib.sha256(b"other").hexdigest()):
        status, answer = door.ask("PUT", f"/v1/artifacts/sha256/{digest}", b"some bytes")
        assert status == 422
        assert json.loads(answer)["error"]["code"] == "digest-mismatch"
    for digest in ("A" * 64, "a" * 63, "..", "%2e%2e%2fx", "a" * 65, "%00" * 64):
        assert door.ask("PUT", f"/v1/artifacts/sha256/{digest}", b"x")[0] in (400, 404, 422)
    with door.open(
        b"PUT /v1/artifacts/sha256/%b HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nx"
        % (b"0" * 64)
    ):
        pass  # leaves in the middle
    home.until(lambda: sorted(str(path) for path in uploads.rglob("*")) == before)


def test_a_log_is_written_only_by_who_holds_the_task(home: LocalHome, door: Door) -> None:
    done = home.run("echo", "mine", check=0)
    job = home.jobs()[0]["id"]
    home.until(lambda: home.wire().call("GET", f"/v1/jobs/{job}")["log_complete"])
    log = home.log(job)
    tasks = [path.stem for path in (home.folder / "home" / "logs" / job).iterdir()]
    for task in (*tasks, "nobody", "%2e%2e", "a" * 5_000):
        for query in ("", "offset=0&fence=1", "offset=0", "fence=-1", "offset=" + "9" * 30):
            status, _ = door.ask("PUT", f"/v1/worker/tasks/{task}/log?{query}", b"\xa7forged")
            assert status < 500
    assert home.log(job) == log == done.stdout


def test_an_honest_client_is_quick_beside_those_that_never_finish(
    home: LocalHome, door: Door
) -> None:
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
    held = [door.open(data) for data in (b"", b"POST /v1/jo", head) for _ in range(170)]
    slowest = 0.0
    for _ in range(20):
        began = time.monotonic()
        assert door.ask("GET", "/v1/version")[0] == 200
        slowest = max(slowest, time.monotonic() - began)
    for sock in held:
        sock.close()
    assert slowest < QUICK_SECONDS
