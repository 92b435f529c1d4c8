"""The two engines of the store: commits, and a job's way through plane and store."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.figures import Figure, batch, calls
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.messages import Acquire, Exit, Held, Register, Report, TaskReport
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.settings import Settings
from gpulayer.control_plane.submission import Submission
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.storage.logs import LogFolder
from gpulayer.storage.store import Store
from tests.support.postgres import PostgresServer

COMMITS, JOBS, CLIENTS = 400, 300, 16
SPEC = {"name": "job", "workload": {"kind": "command", "command": ["true"]}}


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="gpulayer-bench-") as folder:
        yield from _engine("SQLite", f"{folder}/db.sqlite", Path(folder) / "one")
        server = PostgresServer(syncs=True)
        try:
            yield from _engine("PostgreSQL", server.fresh(), Path(folder) / "other")
        finally:
            server.close()


def _engine(name: str, address: str, folder: Path) -> Iterator[Figure]:
    points: Counter[str] = Counter()
    store = Store(address, durability="power", fault=lambda point: points.update([point]))

    values = itertools.count()

    def put(durable: bool) -> None:
        value = str(next(values))  # an equal one would cost SQLite nothing
        store.write(lambda tx: tx.set_meta("key", value), durable=durable).result()

    for durable, what in ((True, "durable"), (False, "soft")):
        alone = calls(lambda d=durable: put(d), 100) * 1000  # type: ignore[misc]
        yield Figure(f"{name}: a {what} commit", alone, "ms", 100)
    with ThreadPoolExecutor(CLIENTS) as pool:
        rate = batch(lambda: list(pool.map(put, [True] * COMMITS)), COMMITS)
    yield Figure(f"{name}: durable writes of {CLIENTS} at once", rate, "/s", COMMITS)
    yield from _plane(name, store, points, folder)
    store.close()


def _plane(name: str, store: Store, points: Counter[str], folder: Path) -> Iterator[Figure]:
    folder.mkdir()
    plane = ControlPlane(
        store,
        SystemClock(),
        SystemIds(),
        Wakeups(),
        LogFolder(folder / "logs"),
        LocalArtifacts(folder / "artifacts"),
        Settings(plane=store.plane),
    )
    plane.reconcile().result()
    worker = _Worker(plane)
    worker.run_one()
    points.clear()
    begun = time.process_time()
    rate = batch(lambda: [worker.run_one() for _ in range(JOBS)], JOBS, runs=1)
    cpu = (time.process_time() - begun) / JOBS * 1000
    yield Figure(f"{name}: jobs one by one, submitted to recorded", rate, "/s", JOBS)
    yield Figure(f"{name}: CPU of the plane for a job", cpu, "ms", JOBS)
    yield Figure(f"{name}: statements of a job", points["statement"] / JOBS, "", JOBS)
    yield Figure(f"{name}: commits of a job", points["committed"] / JOBS, "", JOBS)


class _Worker:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane, self._seq = plane, 1
        can = WorkerCapabilities("w", "linux", "x86_64", 2.0, 8.0, gpus=()).to_json()
        hello = Register("w", "w", "n", "local", can, (), 1)
        self._incarnation = plane.register(hello).result().incarnation

    def run_one(self) -> None:
        self._plane.submit([Submission(SPEC)]).result()
        self._seq += 1
        asked = Acquire("w", self._incarnation, seq=self._seq)
        (task,) = self._plane.acquire_now(asked).result().assignments
        end = Exit("succeeded", "exited", exit_code=0, started_at=1.0, ended_at=2.0)
        news = TaskReport(task.task_id, task.fence, "exited", 1.0, end, 0)
        held = (Held(task.task_id, task.fence, "exited"),)
        report = Report("w", self._incarnation, self._seq, held, (news,))
        assert self._plane.report(report).result().recorded == (task.task_id,)
