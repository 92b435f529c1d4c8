"""Many workers that wait, many clients that submit, a cancel, a flood beside a command."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.scratch import GPULAYER
from gpulayer.api.wire import Wire
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.sdk.local import ensure_plane
from gpulayer.sdk.places import Places

WORKERS = 1_000
SUBMITS = 10_000
CLIENTS = 10_000
"""Connections that submit at the same moment."""
CANCELS = 100
WATCHED_SECONDS = 20.0
PARK_SECONDS = 20.0
_TICK = os.sysconf("SC_CLK_TCK")


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    subprocess.run([GPULAYER, "run", "--", "true"], env=environ, check=True, capture_output=True)
    yield from _cancels()
    yield from _flood()
    yield from asyncio.run(_submits())
    yield from asyncio.run(_parked())


# --- workers --------------------------------------------------------------------------------


async def _parked() -> list[Figure]:
    wire = _wire()
    pid = wire.call("GET", "/v1/version")["pid"]
    before = _rss(pid)
    workers = [_Worker(wire.endpoint.path, number) for number in range(WORKERS)]  # type: ignore[union-attr]
    await asyncio.gather(*(worker.begin() for worker in workers))
    tasks = [asyncio.create_task(loop) for w in workers for loop in (w.parks(), w.reports())]
    await asyncio.sleep(5.0)
    begun, spent = time.perf_counter(), _cpu(pid)
    await asyncio.sleep(WATCHED_SECONDS)
    share = 100.0 * (_cpu(pid) - spent) / (time.perf_counter() - begun)
    rss = _rss(pid)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for worker in workers:
        worker.close()
    return [
        Figure(f"plane with {WORKERS} parked workers", rss, "MiB", WORKERS, 250.0),
        Figure("of that for each worker", (rss - before) * 1024 / WORKERS, "KiB", WORKERS),
        Figure(f"plane with {WORKERS} parked workers, CPU", share, "%", WORKERS, 10.0),
    ]


class _Connection:
    """One keep-alive connection, one exchange at a time."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_unix_connection(self._path)

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        self._writer.write(head.encode() + data)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.split(b"content-length: ")[1].split(b"\r\n")[0])
        text = await self._reader.readexactly(length)
        if b"connection: close" in answer:
            self.close()
            await self.open()
        return int(answer[9:12]), json.loads(text or b"null")

    def close(self) -> None:
        self._writer.close()


class _Worker:
    """What an idle agent says: a heartbeat, and one parked call after another."""

    def __init__(self, path: str, number: int) -> None:
        self._id = f"bench{number}"
        self._acquires, self._reports = _Connection(path), _Connection(path)
        self._seq = 0

    async def begin(self) -> None:
        await self._acquires.open()
        await self._reports.open()
        capabilities = WorkerCapabilities(self._id, "linux", "x86_64", 0.5, 1.0).to_json()
        body = {"worker_id": self._id, "name": self._id, "nonce": self._id, "target": "remote"}
        told = (await self._say("register", {**body, "capabilities": capabilities}))[1]
        self._incarnation, self._interval = told["incarnation"], told["report_seconds"]

    async def parks(self) -> None:
        seq = 0
        while True:
            seq += 1
            body = {"worker_id": self._id, "incarnation": self._incarnation, "seq": seq}
            await self._acquires.post("/v1/worker/acquire", {**body, "park_seconds": PARK_SECONDS})

    async def reports(self) -> None:
        await asyncio.sleep(self._interval * (int(self._id[5:]) / WORKERS))
        while True:
            said = {"worker_id": self._id, "incarnation": self._incarnation}
            self._interval = (await self._say("report", said))[1]["report_seconds"]
            await asyncio.sleep(self._interval)

    async def _say(self, verb: str, body: dict[str, Any]) -> tuple[int, Any]:
        self._seq += 1
        return await self._reports.post(f"/v1/worker/{verb}", {**body, "seq": self._seq})

    def close(self) -> None:
        self._acquires.close()
        self._reports.close()


# --- clients --------------------------------------------------------------------------------


async def _submits() -> list[Figure]:
    path: str = _wire().endpoint.path  # type: ignore[union-attr]
    connections = [_Connection(path) for _ in range(CLIENTS)]
    await asyncio.gather(*(connection.open() for connection in connections))
    # For a GPU that nobody has: it is the door that is measured here.
    spec = {"name": "many", "workload": {"kind": "command", "command": ["true"]}}
    spec["resources"] = {"accelerator": "cuda", "gpu_count": 1}
    statuses: list[int] = []

    async def client(number: int) -> None:
        for n in range(SUBMITS // CLIENTS):
            body = {"spec": spec, "idempotency_key": f"{number}-{n}"}
            statuses.append((await connections[number].post("/v1/jobs", body))[0])

    begun = time.perf_counter()
    await asyncio.gather(*map(client, range(CLIENTS)))
    took = time.perf_counter() - begun
    accepted = statuses.count(200)
    assert accepted + statuses.count(429) == SUBMITS, set(statuses)
    assert _wire().call("GET", "/v1/doctor")["jobs"]["queued"] == accepted
    for connection in connections:
        connection.close()
    return [
        Figure(f"{SUBMITS} submits by {CLIENTS} clients at once", SUBMITS / took, "/s", SUBMITS),
        Figure("of them accepted", accepted, "jobs", SUBMITS),
    ]


def _cancels() -> Iterator[Figure]:
    wire = _wire()
    took = []
    for _ in range(CANCELS):
        job = wire.call("POST", "/v1/jobs", {"spec": _spec("sleep", "600")})["id"]
        wire.call("GET", f"/v1/jobs/{job}?wait=20&until=started", park=20)
        begun = time.perf_counter()
        wire.call("POST", f"/v1/jobs/{job}/cancel", {"mode": "term"})
        ended = wire.call("GET", f"/v1/jobs/{job}?wait=20", park=20)
        took.append(time.perf_counter() - begun)
        assert ended["state"] == "cancelled"
    yield Figure("cancel of a running job, p99", _p99(took) * 1000, "ms", CANCELS, 1000.0)
    yield Figure("cancel of a running job", statistics.median(took) * 1000, "ms", CANCELS)


def _flood() -> Iterator[Figure]:
    """The flood is a job of its own, whose log goes to the plane as fast as it can."""
    quiet = _commands(30)
    wire = _wire()
    job = wire.call("POST", "/v1/jobs", {"spec": _spec("sh", "-c", "yes | head -c 3000000000")})
    wire.call("GET", f"/v1/jobs/{job['id']}?wait=20&until=started", park=20)
    path = Path(Places.find().logs) / job["id"]
    begun, size = time.perf_counter(), _folder_size(path)
    beside = _commands(30)
    rate = (_folder_size(path) - size) / (time.perf_counter() - begun) / 1e6
    wire.call("POST", f"/v1/jobs/{job['id']}/cancel", {"mode": "kill"})
    wire.call("GET", f"/v1/jobs/{job['id']}?wait=20", park=20)
    yield Figure("log of one job to the plane, MB", rate, "/s", 1, 100.0)
    yield Figure("a command", quiet * 1000, "ms", 30)
    yield Figure("a command beside that log", beside * 1000, "ms", 30)


def _commands(count: int) -> float:
    """Median seconds from the submission of a command to its end."""
    wire = _wire()
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        job = wire.call("POST", "/v1/jobs", {"spec": _spec("true")})["id"]
        wire.call("GET", f"/v1/jobs/{job}?wait=20", park=20)
        took.append(time.perf_counter() - begun)
    return statistics.median(took)


def _spec(*argv: str) -> dict[str, Any]:
    work = {"kind": "command", "command": list(argv)}
    return {"name": "bench", "workload": work, "resources": {"cpu_cores": 0.5}}


def _wire() -> Wire:
    return ensure_plane(Places.find())


def _p99(values: list[float]) -> float:
    return sorted(values)[max(0, len(values) * 99 // 100 - 1)]


def _folder_size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.glob("*")) if path.is_dir() else 0


def _rss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK
