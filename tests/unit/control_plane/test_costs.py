"""What a command costs the plane, counted and not timed: commits, statements, exchanges."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.messages import (
    Acquire,
    Assignment,
    Exit,
    Held,
    Register,
    Report,
    TaskReport,
)
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.submission import Submission
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.storage.logs import LogFolder
from gpulayer.storage.store import Store

JOBS = 20
_SPEC = {"name": "job", "workload": {"kind": "command", "command": ["true"]}}


class Shelf(LocalArtifacts):
    """Has everything, and counts how often it is asked."""

    def __init__(self, folder: Path, counts: Counter[str]) -> None:
        super().__init__(folder)
        self._counts = counts

    def touch(self, digest: str) -> bool:
        self._counts["touched"] += 1
        return True


@pytest.fixture
def counts() -> Counter[str]:
    """What the store did, by kind."""
    return Counter()


@pytest.fixture
def plane(tmp_path: Path, counts: Counter[str]) -> Iterator[ControlPlane]:
    store = Store(inline=True, fault=lambda point: counts.update([point]))
    yield ControlPlane(
        store,
        SystemClock(),
        SystemIds(),
        Wakeups(),
        LogFolder(tmp_path / "logs"),
        Shelf(tmp_path / "artifacts", counts),
    )
    store.close()


class Worker:
    """Has two cores and ends each task as soon as it has it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._seq = 1
        capabilities = WorkerCapabilities("w", "linux", "x86_64", 2.0, 8.0, gpus=())
        hello = Register("w", "w", "n", "local", capabilities.to_json(), (), self._seq)
        self._incarnation = plane.register(hello).result(0).incarnation

    def acquire(self) -> list[Assignment]:
        asked = Acquire("w", self._incarnation, seq=1)
        return list(self._plane.acquire_now(asked).result(0).assignments)

    def finish(self, task: Assignment, others: list[Assignment]) -> tuple[Assignment, ...]:
        """The assignments that came with the answer."""
        self._seq += 1
        held = [Held(other.task_id, other.fence, "running") for other in others]
        held.append(Held(task.task_id, task.fence, "exited"))
        end = Exit("succeeded", "exited", exit_code=0, started_at=1.0, ended_at=2.0)
        news = TaskReport(task.task_id, task.fence, "exited", 1.0, end, 0)
        report = Report("w", self._incarnation, self._seq, tuple(held), (news,))
        reply = self._plane.report(report).result(0)
        assert reply.recorded == (task.task_id,)
        return reply.assignments


def test_a_full_queue_costs_one_exchange_and_one_commit_per_command(
    plane: ControlPlane, counts: Counter[str]
) -> None:
    worker = Worker(plane)
    plane.submit([Submission(_SPEC) for _ in range(JOBS)]).result(0)
    tasks = worker.acquire()
    assert len(tasks) == 2
    counts.clear()
    ended = 0
    while tasks:
        tasks += worker.finish(tasks.pop(0), tasks)
        ended += 1
    assert ended == JOBS
    assert counts["committed"] == JOBS
    assert counts["statement"] < 30 * JOBS
    session = plane._registry._sessions.all()[0]
    assert len(session.handed) <= 4, "what was confirmed is looked at no more"


def test_of_a_batch_what_is_alike_is_judged_once(plane: ControlPlane, counts: Counter[str]) -> None:
    def submission(number: int, key: str, origin: dict[str, str]) -> Submission:
        artifact = f"artifact://sha256/{number:064}"
        inputs = [{"path": "data", "artifact": artifact}]
        return Submission({**_SPEC, "inputs": inputs}, origin, key)

    here, there = {"cwd": "/here"}, {"cwd": "/there"}
    wanted = [submission(n % 2, f"key{n}", here) for n in range(JOBS)]
    wanted.append(submission(0, "another", there))
    jobs = plane.submit(wanted).result(0)
    assert counts["touched"] == 3, "two specs, one of them from two places"
    for asked, job in zip(wanted, jobs, strict=True):
        assert job.spec["inputs"][0]["artifact"] == asked.spec["inputs"][0]["artifact"]
        assert (job.origin, job.idempotency_key) == (asked.origin, asked.idempotency_key)
    assert len({job.id for job in jobs}) == len(jobs)


def test_a_command_on_an_idle_machine_is_placed_with_its_submission(
    plane: ControlPlane, counts: Counter[str]
) -> None:
    worker = Worker(plane)
    plane.submit([Submission(_SPEC)]).result(0)
    for task in worker.acquire():
        worker.finish(task, [])
    counts.clear()
    plane.submit([Submission(_SPEC)]).result(0)
    assert counts["committed"] == 1


def test_plain_jobs_cost_what_they_did_once_an_array_has_ended(
    plane: ControlPlane, counts: Counter[str]
) -> None:
    def statements(worker: Worker) -> int:
        plane.submit([Submission(_SPEC) for _ in range(JOBS)]).result(0)
        counts.clear()
        tasks = worker.acquire()
        while tasks:
            tasks += worker.finish(tasks.pop(0), tasks)
        return counts["statement"]

    worker = Worker(plane)
    statements(worker)  # a plane that has just begun looks for arrays once
    before = statements(worker)
    plane.submit([Submission({**_SPEC, "array": {"count": JOBS}})]).result(0)
    tasks = worker.acquire()
    while tasks:
        tasks += worker.finish(tasks.pop(0), tasks)
    statements(worker)
    assert statements(worker) == before


def test_an_element_costs_one_commit_and_a_few_statements(
    plane: ControlPlane, counts: Counter[str]
) -> None:
    worker = Worker(plane)
    plane.submit([Submission({**_SPEC, "array": {"count": JOBS}})]).result(0)
    tasks = worker.acquire()
    counts.clear()
    ended = 0
    while tasks:
        tasks += worker.finish(tasks.pop(0), tasks)
        ended += 1
    assert ended == JOBS
    assert counts["committed"] == JOBS
    assert counts["statement"] < 35 * JOBS


def test_to_cancel_an_array_costs_the_same_whatever_waits(
    plane: ControlPlane, counts: Counter[str]
) -> None:
    spent = []
    for size in (1_000, 100_000):
        spec = {**_SPEC, "array": {"count": size}}
        job = plane.submit([Submission(spec)]).result(0)[0]
        counts.clear()
        began = time.thread_time()
        plane.cancel(job.id).result(0)
        seconds = time.thread_time() - began
        spent.append((counts["statement"], counts["committed"]))
        assert seconds < 0.1, "it answers at once"
        assert plane.job(job.id)["state"] == "cancelled"
    assert spent[0] == spent[1]
    assert spent[0][1] == 1
