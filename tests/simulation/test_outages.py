"""A job of ten minutes outlives two minutes without a plane, or without a line to it.

True leases on the virtual clock: 30 s, and a grace of 10 minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.machine import Plan
from tests.simulation.script import AGAIN, Script

JOB_SECONDS = 600.0
OUTAGE_SECONDS = 120.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Script]:
    plan = Plan(JOB_SECONDS, 0, ((1.0, 100), (JOB_SECONDS - 1, 100)), False)
    world = Script(str(tmp_path), lambda _: plan)
    try:
        yield world
    finally:
        world.close()


def test_a_plane_that_is_away_for_two_minutes(world: Script) -> None:
    job_id = world.submit()
    world.until(100.0)
    world.restart(OUTAGE_SECONDS)
    world.until(800.0)
    job, story, runs = world.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 1, 1)
    assert "disconnected" not in [event.kind for event in story], "nothing expires at a start"
    assert job.finished_at == pytest.approx(job.started_at + JOB_SECONDS, abs=30)  # quartz


def test_a_line_that_is_cut_for_two_minutes(world: Script) -> None:
    job_id = world.submit()
    world.until(100.0)
    world.cut(OUTAGE_SECONDS)
    world.until(800.0)
    job, story, runs = world.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 1, 1)
    times = {event.kind: event.at - story[0].at for event in story}
    assert times["disconnected"] == pytest.approx(100 + 30, abs=10)
    assert times["reconnected"] == pytest.approx(100 + OUTAGE_SECONDS, abs=10)


def test_a_line_that_stays_cut_past_the_grace(world: Script) -> None:
    """The fence is dead by then: what came of the job is told, and changes nothing."""
    job_id = world.submit()
    world.until(100.0)
    world.cut(700.0)
    world.until(790.0)
    job, before, _ = world.job(job_id)
    assert (job.state, job.reason) == ("failed", "worker_lost")
    world.until(1000.0)
    after, story, _ = world.job(job_id)
    assert after == job
    (late,) = story[len(before) :]
    assert (late.kind, late.state, late.data["outcome"]) == ("late_report", "failed", "succeeded")
    assert not any(worker.disk for worker in world.workers), "it is forgotten"


def test_a_job_that_may_go_again_has_ended_before_it_does(world: Script) -> None:
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
