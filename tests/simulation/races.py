"""Races of the state machines' list that need a whole world, each as a script that a planted bug
must fail: what happens, when, and what must hold. `Plan` and workers are the first lines of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpulayer.control_plane.plane import ControlPlane
from tests.simulation.machine import Plan
from tests.simulation.planted_races import EndsAreForgotten, NoCrashIsCounted, PeersAreNotTold
from tests.simulation.script import AGAIN, Script

LONG = Plan(400.0, 0, ((1.0, 100),), False)


@dataclass(frozen=True, slots=True)
class Race:
    number: int
    name: str
    play: Callable[[Script], None]
    workers: int
    plan: Plan
    bug: Callable[..., ControlPlane]
    """With which it must fail."""


def a_finish_after_the_lease_and_before_another_attempt(script: Script) -> None:
    """It is refused, told as late, and what it printed is kept."""
    job_id = script.submit(**AGAIN)
    script.until(10.0)
    (worker,) = script.workers
    worker.link.cut_until = 40.0
    script.until(38.0)
    assert script.host.plane is not None
    script.host.plane.drain("w0").result(0)
    assert (script.job(job_id)[0].state, script.where()) == ("queued", [])
    script.until(70.0)
    job, story, _ = script.job(job_id)
    assert (job.state, job.exit_code) == ("queued", None)
    assert script.story(job_id)[-1] == "late_report"
    assert story[-1].data == {"outcome": "succeeded", "exit_code": 0}
    (task,) = script.tasks(job_id)
    assert task.state == "lost"
    assert bytes(script.host.logs.segments[task.id]) == bytes(worker.truth[task.id]) != b""
    script.host.plane.drain("w0", draining=False).result(0)
    script.until(150.0)
    job, _, runs = script.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 2, 2)


def a_node_that_fails_while_another_is_prepared(script: Script) -> None:
    """The gang ends at once: the other node does no work, whenever it would have been ready."""
    script.on("w1").staging_seconds = 20.0
    job_id = script.gang()
    while len(script.where()) < 1:
        script.until(script.engine.now + 0.1)
    script.until(script.engine.now + 6.0)
    assert [task.phase for task in script.tasks(job_id)] == ["running", "staging"]
    failed = script.engine.now
    first = script.tasks(job_id)[0]
    supervisor = script.on(first.worker_id).supervisor
    assert supervisor is not None
    supervisor.exits(first.id, 3)
    script.until(failed + 3.0)
    assert "stopping" in script.story(job_id)
    script.until(failed + 20.0)
    job, _, _ = script.job(job_id)
    assert (job.state, job.exit_code, job.attempt) == ("failed", 3, 1)
    assert [task.state for task in script.tasks(job_id)] == ["failed", "cancelled"]
    assert not script.where()


def a_task_that_kills_its_worker_each_time(script: Script) -> None:
    """It stops at the crash limit; what ran beside it is charged for each crash once."""
    retry = {"retry": {"max_attempts": 20, "retry_on": ["worker_lost"]}}
    half = {"resources": {"cpu_cores": 0.5}}
    poison, crashes = script.submit(**retry, **half), 0
    innocent = ""
    while script.job(poison)[0].finished_at is None and crashes < 10:
        running = [p.job_id for p in script.physics.alive.values()]
        if crashes == 3 and poison in running and not innocent:
            innocent = script.submit(**retry, **half)
        if poison in running and (not innocent or innocent in running):
            script.on("w0").crash()
            crashes += 1
        script.until(script.engine.now + 1.0)
    job = script.job(poison)[0]
    assert (job.state, job.reason, crashes) == ("failed", "crash_limit", 5)
    beside = script.job(innocent)[0]
    assert (beside.lost, beside.attempt) == (2, 3)
    script.until(script.engine.now + 600.0)
    beside = script.job(innocent)[0]
    assert (beside.state, beside.lost) == ("succeeded", 2)


RACES = (
    Race(
        2,
        "a finish after the lease and before another attempt",
        a_finish_after_the_lease_and_before_another_attempt,
        1,
        Plan(20.0, 0, ((1.0, 100), (19.0, 100)), False),
        EndsAreForgotten,
    ),
    Race(
        24,
        "a node that fails while another is prepared",
        a_node_that_fails_while_another_is_prepared,
        2,
        LONG,
        PeersAreNotTold,
    ),
    Race(
        46,
        "a task that kills its worker each time",
        a_task_that_kills_its_worker_each_time,
        1,
        LONG,
        NoCrashIsCounted,
    ),
)
