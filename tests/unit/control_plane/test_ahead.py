"""Short jobs at the plane: what is sent ahead, what that costs, what is asked back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.clock import SystemClock, SystemIds
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.messages import (
    Acquire,
    Acquired,
    Assignment,
    Exit,
    Held,
    Register,
    Report,
    TaskReport,
)
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.scheduler.ahead import EACH
from gpulayer.control_plane.submission import Submission
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.storage.logs import LogFolder
from gpulayer.storage.store import Store

RUNS = 0.002
"""Seconds that a task takes."""


@pytest.fixture
def counts() -> Counter[str]:
    return Counter()


@pytest.fixture
def plane(tmp_path: Path, counts: Counter[str]) -> Iterator[ControlPlane]:
    store = Store(inline=True, fault=lambda point: counts.update([point]))
    logs = LogFolder(tmp_path / "logs")
    yield ControlPlane(store, SystemClock(), SystemIds(), Wakeups(), logs, None)  # type: ignore[arg-type]
    store.close()


class Worker:
    """Two cores. It ends tasks when told to, and begins in their room what was sent ahead."""

    def __init__(self, plane: ControlPlane, name: str = "w", *, takes_ahead: bool = True) -> None:
        self._plane, self._name = plane, name
        self._seq, self._acquires = 1, 0
        facts = WorkerCapabilities(
            name, "linux", "x86_64", 2.0, 8.0, gpus=(), takes_ahead=takes_ahead
        )
        hello = Register(name, name, "n", "local", facts.to_json(), (), self._seq)
        self._incarnation = plane.register(hello).result(0).incarnation
        self.running: list[Assignment] = []
        self.waiting: list[Assignment] = []

    def acquire(self) -> Acquired:
        self._acquires += 1
        asked = Acquire(self._name, self._incarnation, seq=self._acquires)
        answer = self._plane.acquire_now(asked).result(0)
        self._take(answer.assignments)
        return answer

    def end(self, count: int, **how: Any) -> None:
        """So many tasks, one after the other, told in one report."""
        ended = []
        while self.running and len(ended) < count:
            ended.append(self.running.pop(0))
            if self.waiting:
                self.running.append(self.waiting.pop(0))
        self.tell([(task, self._ran(**how)) for task in ended])

    def hand_back(self, *tasks: Assignment) -> None:
        self.waiting = [task for task in self.waiting if task not in tasks]
        self.tell([(task, Exit("lost", "retracted")) for task in tasks])

    def tell(self, ends: list[tuple[Assignment, Exit]]) -> None:
        self._seq += 1
        held = [Held(task.task_id, task.fence, "running") for task in self.running]
        held += [Held(task.task_id, task.fence, "staging", ahead=True) for task in self.waiting]
        held += [Held(task.task_id, task.fence, "exited") for task, _ in ends]
        news = [TaskReport(t.task_id, t.fence, "exited", e.started_at, e, 0) for t, e in ends]
        report = Report(self._name, self._incarnation, self._seq, tuple(held), tuple(news))
        self._take(self._plane.report(report).result(0).assignments)

    def _ran(self, seconds: float = RUNS) -> Exit:
        return Exit("succeeded", "exited", exit_code=0, started_at=1.0, ended_at=1.0 + seconds)

    def _take(self, assignments: tuple[Assignment, ...]) -> None:
        for task in assignments:
            known = [one for one in self.waiting if one.task_id == task.task_id]
            self.waiting = [one for one in self.waiting if one not in known]
            (self.waiting if task.ahead else self.running).append(task)


def submit(plane: ControlPlane, count: int, **spec: Any) -> list[str]:
    command = {"name": "job", "workload": {"kind": "command", "command": ["true"]}}
    return [job.id for job in plane.submit([Submission({**command, **spec})] * count).result(0)]


def full(plane: ControlPlane, queued: int = 80) -> Worker:
    """A worker that has shown how short its tasks are, with a queue behind it."""
    worker = Worker(plane)
    submit(plane, queued)
    worker.acquire()
    assert (len(worker.running), len(worker.waiting)) == (2, 0)
    worker.end(1)
    worker.acquire()  # a second pass looks at more of the queue than the first
    return worker


def test_short_tasks_share_reports_and_commits(plane: ControlPlane, counts: Counter[str]) -> None:
    worker = full(plane)
    assert (len(worker.running), len(worker.waiting)) == (2, 2 * EACH)
    counts.clear()
    reports = 0
    while worker.running:
        worker.end(2 * EACH - 2)
        reports += 1
    assert plane.counts()["succeeded"] == 80
    assert counts["committed"] == reports <= 8
    assert counts["statement"] < 24 * 79


def test_a_worker_that_cannot_wait_or_whose_tasks_are_long_is_sent_nothing(
    plane: ControlPlane,
) -> None:
    unable = Worker(plane, takes_ahead=False)
    submit(plane, 10)
    unable.acquire()
    unable.end(1)
    assert (len(unable.running), len(unable.waiting)) == (2, 0)
    for _ in range(3):
        unable.end(1)
    slow = Worker(plane, "slow")
    submit(plane, 10)
    slow.acquire()
    slow.end(1, seconds=1.0)
    assert (len(slow.running), len(slow.waiting)) == (2, 0)


def test_it_holds_nothing_and_is_told_as_next_in_line(plane: ControlPlane) -> None:
    worker = full(plane)
    (view,) = plane.workers()
    assert len(view["tasks"]) == 2
    told = plane.decision(worker.waiting[0].job_id)
    assert told is not None
    assert told["summary"] == "placed on w, next in line there"
    assert plane.find(worker.waiting[0].job_id).state == "scheduled"


def test_where_room_appears_otherwise_it_is_sent_once_more(plane: ControlPlane) -> None:
    worker = full(plane, queued=4)
    (late,) = worker.waiting
    worker.waiting = []  # it is still on its way when the next end is told
    worker.end(1)
    assert [task.task_id for task in worker.running][-1:] == [late.task_id]
    assert not worker.running[-1].ahead


def test_what_could_begin_elsewhere_is_asked_back_at_no_cost_of_an_attempt(
    plane: ControlPlane,
) -> None:
    worker = full(plane, queued=6)
    assert len(worker.waiting) == 3
    other = Worker(plane, "x")
    back = worker.acquire().retract
    assert [task.job_id for task in back] == [task.job_id for task in worker.waiting[:2]]
    worker.hand_back(
        *[task for task in worker.waiting if task.task_id in {b.task_id for b in back}]
    )
    other.acquire()
    assert [task.job_id for task in other.running] == [task.job_id for task in back]
    assert {plane.find(task.job_id).attempt for task in other.running} == {1}


def test_a_job_of_higher_priority_comes_before_what_was_sent_ahead(plane: ControlPlane) -> None:
    worker = full(plane)
    (urgent,) = submit(plane, 1, priority=5)
    assert len(worker.acquire().retract) == len(worker.waiting)
    worker.hand_back(*worker.waiting)
    worker.end(1)
    assert urgent in [task.job_id for task in worker.running]


def test_a_plan_tells_whether_there_is_room_now(plane: ControlPlane) -> None:
    full(plane)
    planned = plane.plan({"name": "p", "workload": {"kind": "command", "command": ["true"]}}, {})
    assert planned["outcome"] == "waiting"
