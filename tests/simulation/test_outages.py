"""A job of ten minutes outlives two minutes without a plane, or without a line to it.

True leases on the virtual clock: 30 s, and a grace of 10 minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.contracts.records import Event, Job
from gpulayer.control_plane.submission import Submission
from tests.simulation.engine import Engine
from tests.simulation.machine import Physics, Plan
from tests.simulation.network import Network
from tests.simulation.plane import PlaneHost
from tests.simulation.worker import Worker

JOB_SECONDS = 600.0
OUTAGE_SECONDS = 120.0
AGAIN = {"retry": {"max_attempts": 2, "retry_on": ["worker_lost"]}}


class FarPlane(PlaneHost):
    """No worker can start it."""

    away = False

    def wanted(self) -> None:
        if not self.away:
            super().wanted()


class World:
    """A plane and two workers elsewhere; jobs of ten minutes."""

    def __init__(self, folder: str) -> None:
        self.engine = Engine(1)
        self.physics = Physics(self.engine)
        self.host = FarPlane(self.engine, folder, lambda: self.network.hang_up())
        self.network = Network(self.engine, self.host)
        plan = Plan(JOB_SECONDS, 0, ((1.0, 100), (JOB_SECONDS - 1, 100)), False)
        self.workers = [
            Worker(name, self.engine, self.network, self.host, self.physics, plan=lambda _: plan)
            for name in ("w0", "w1")
        ]
        self.until(5.0)

    def until(self, seconds: float) -> None:
        self.engine.run(seconds, after_each=lambda: None)

    def submit(self, **spec: Any) -> str:
        workload = {"kind": "command", "command": ["train"]}
        body = {"name": "train", "workload": workload, "resources": {"cpu_cores": 1.0}, **spec}
        assert self.host.plane is not None
        return str(self.host.plane.submit([Submission(body)]).result(0)[0].id)

    def restart(self) -> None:
        """kill -9 of the plane, which is back after the outage."""
        self.host.away = True
        self.host.crash(1e9)
        self.until(self.engine.now + OUTAGE_SECONDS)
        self.host.away = False
        self.host.wanted()

    def cut(self, seconds: float) -> None:
        for worker in self.workers:
            worker.link.cut_until = self.engine.now + seconds

    def job(self, job_id: str) -> tuple[Job, list[Event], int]:
        """Its row, its story, and how many processes of it there have been."""
        assert self.host.store is not None
        with self.host.store.read() as reader:
            (job,) = [job for job in reader.jobs() if job.id == job_id]
            return job, reader.events(job.id), self.physics.runs[job.id, 0]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(str(tmp_path))
    try:
        yield world
    finally:
        if world.host.store is not None:
            world.host.store.close()


def test_a_plane_that_is_away_for_two_minutes(world: World) -> None:
    job_id = world.submit()
    world.until(100.0)
    world.restart()
    world.until(800.0)
    job, story, runs = world.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 1, 1)
    assert "disconnected" not in [event.kind for event in story], "nothing expires at a start"
    assert job.finished_at == pytest.approx(job.started_at + JOB_SECONDS, abs=30)  # quartz


def test_a_line_that_is_cut_for_two_minutes(world: World) -> None:
    job_id = world.submit()
    world.until(100.0)
    world.cut(OUTAGE_SECONDS)
    world.until(800.0)
    job, story, runs = world.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 1, 1)
    times = {event.kind: event.at - story[0].at for event in story}
    assert times["disconnected"] == pytest.approx(100 + 30, abs=10)
    assert times["reconnected"] == pytest.approx(100 + OUTAGE_SECONDS, abs=10)


def test_a_line_that_stays_cut_past_the_grace(world: World) -> None:
    """The fence is dead by then: what came of the job changes nothing."""
    job_id = world.submit()
    world.until(100.0)
    world.cut(700.0)
    world.until(790.0)
    job, _, _ = world.job(job_id)
    assert (job.state, job.reason) == ("failed", "worker_lost")
    world.until(1000.0)
    assert world.job(job_id)[0] == job
    assert not any(worker.disk for worker in world.workers), "it is forgotten"


def test_a_job_that_may_go_again_has_ended_before_it_does(world: World) -> None:
    """`Physics` breaks the run where two processes of one job are alive."""
    job_id = world.submit(**AGAIN)
    world.until(100.0)
    (process,) = world.physics.alive.values()
    cut = next(worker for worker in world.workers if worker.name == process.machine)
    cut.link.cut_until = world.engine.now + OUTAGE_SECONDS
    world.until(140.0)
    (moved,) = world.physics.alive.values()
    assert moved.machine != process.machine
    world.until(900.0)
    job, story, runs = world.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 2, 2)
    assert "disconnected" not in [event.kind for event in story]
