"""Races between two machines and a plane, each a script: what happens, when, and what must hold.

`Physics` breaks every run in which two processes of one element live at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.contracts.states import LIVE_TASK_STATES, TaskState
from tests.simulation.faults import Faults
from tests.simulation.machine import Plan
from tests.simulation.races import RACES, Race
from tests.simulation.script import AGAIN, Script

Start = Callable[..., Script]
LONG = Plan(100.0, 0, ((1.0, 100),), False)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    begun: list[Script] = []

    def start(
        plan: Callable[[str], Plan] = lambda _: LONG, workers: int = 2, **made: Any
    ) -> Script:
        folder = tmp_path / str(len(begun))
        folder.mkdir()
        begun.append(Script(str(folder), plan, workers, **made))
        return begun[-1]

    yield start
    for script in begun:
        script.close()


@pytest.mark.parametrize("race", RACES, ids=lambda race: f"{race.number:02} {race.name}")
def test_a_race_ends_as_it_must(start: Start, race: Race) -> None:
    race.play(start(lambda _: race.plan, race.workers))


@pytest.mark.parametrize("race", RACES, ids=lambda race: f"{race.number:02} {race.name}")
def test_a_planted_bug_is_seen_by_it(start: Start, race: Race) -> None:
    with pytest.raises(AssertionError):
        race.play(start(lambda _: race.plan, race.workers, make_plane=race.bug))


def kinds(script: Script, job_id: str) -> list[str]:
    return [event.kind for event in script.job(job_id)[1]]


def runs_on(script: Script) -> str:
    (machine,) = script.where()
    return machine


def test_a_finish_after_lease_and_reassignment(start: Start) -> None:
    """A worker that is cut off ends its task in time to succeed; by when it can tell, the task was
    given to another. The second attempt is untouched."""
    script = start(lambda name: Plan(20.0, 0, ((1.0, 100),), False))
    job_id = script.submit(**AGAIN)
    script.until(10.0)
    first = runs_on(script)
    script.on(first).link.cut_until = 60.0
    script.until(41.0)
    second = runs_on(script)
    assert second != first
    script.until(200.0)
    job, _, runs = script.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 2, 2)
    assert [task.state for task in script.tasks(job_id)] == ["lost", "succeeded"]
    assert kinds(script, job_id).count("finished") == 1


def test_a_worker_that_returns_after_it_was_lost(start: Start) -> None:
    """What it still runs is ended before it gets anything new; that it was there is told once, and
    nothing else of the lost job changes."""
    script = start(lambda name: Plan(2_000.0, 0, (), False), workers=1)
    lost = script.submit()
    script.until(20.0)
    script.cut(700.0)
    script.until(100.0)
    waits = script.submit()
    script.until(719.0)
    job, before, _ = script.job(lost)
    assert (job.state, job.reason) == ("failed", "worker_lost")
    script.until(800.0)
    after, story, _ = script.job(lost)
    assert after == job
    (late,) = story[len(before) :]
    assert (late.kind, late.data["outcome"]) == ("late_report", None)
    told = [line for line in script.engine.lines or () if " born " in line or " dead " in line]
    first, second = (script.tasks(job)[0].id for job in (lost, waits))
    assert [line.split()[1:4:1] for line in told] == [
        ["w0", "born", first],
        ["physics", "dead", first],
        ["w0", "born", second],
    ]


def test_two_machines_with_one_credential(start: Start) -> None:
    """The older one ends what it runs when it hears of the newer one; that one begins nothing
    before the older one's lease is over, and neither pushes the other out again."""
    script = start(workers=1)
    job_id = script.submit(**AGAIN)
    script.until(20.0)
    older, newer = script.on("w0"), script.copied("w0")
    script.until(24.0)
    assert not script.where()
    assert script.job(job_id)[0].state == "running"
    script.until(45.0)
    assert not script.where()
    script.until(60.0)
    assert script.where() == [newer.name]
    older.is_gone = False  # somebody begins it by hand
    older.start_supervisor()
    older.start_agent()
    script.until(300.0)
    job, story, runs = script.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 2, 2)
    assert older.is_gone
    assert not newer.is_gone
    assert [event.kind for event in story].count("retrying") == 1


@pytest.mark.parametrize("sleeper", ["machine", "agent"])
def test_a_worker_that_sleeps_past_its_lease(start: Start, sleeper: str) -> None:
    """A laptop is shut, or an agent is stopped (SIGSTOP), for longer than a lease: the task goes
    to another, and what the sleeper had of it is over within a moment of its waking."""
    script = start()
    job_id = script.submit(**AGAIN)
    script.until(20.0)
    first = script.on(runs_on(script))
    if sleeper == "machine":
        first.suspend(60.0)
    else:
        first.stop_agent(60.0)
    script.until(70.0)
    assert {w for w in script.where() if w != first.name}, "it is given to another"
    script.until(85.0)
    assert runs_on(script) != first.name
    script.until(300.0)
    job, _, runs = script.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 2, 2)
    assert not any(worker.disk for worker in script.workers)


@pytest.mark.parametrize("seconds", [3_600.0, -3_600.0])
def test_wall_clocks_that_jump_by_an_hour(start: Start, seconds: float) -> None:
    """Leases are not measured on them, at the plane nor at a worker."""
    script = start()
    job_id = script.submit(**AGAIN)
    script.until(20.0)
    for clock in (script.host.clock, *(worker.clock for worker in script.workers)):
        clock.jump(seconds)
    script.until(60.0)
    script.restart(1.0)
    script.until(200.0)
    job, story, runs = script.job(job_id)
    assert (job.state, job.attempt, runs) == ("succeeded", 1, 1)
    assert "disconnected" not in [event.kind for event in story]


def test_a_wall_clock_that_is_set_back_while_the_plane_is_away(start: Start) -> None:
    """A retry that waits for a time waits no longer for it."""
    script = start(lambda name: Plan(1.0, 3, (), False))
    retry = {"max_attempts": 2, "retry_on": ["failed"]}
    job_id = script.submit(retry=retry)
    while script.job(job_id)[0].not_before <= script.host.clock.now():
        script.until(script.engine.now + 0.01)
    script.host.away = True
    script.host.crash(1e9)
    script.host.clock.jump(-86_400.0)
    script.host.away = False
    script.host.wanted()
    script.until(script.engine.now + 60.0)
    job, _, runs = script.job(job_id)
    assert (job.state, runs) == ("failed", 2)


def test_a_plane_that_is_killed_while_it_places_a_gang(start: Start) -> None:
    """At any point of its transactions: no node is placed, or all are, and the gang ends well."""
    for point in range(0, 40, 3):
        script = start()
        job_id = script.gang()
        script.host.crash_in(point)
        script.until(60.0)
        live = [task for task in script.tasks(job_id) if task.state in LIVE_TASK_STATES]
        assert [task.rank for task in live] in ([], [0, 1])
        script.until(400.0)
        assert script.job(job_id)[0].state == "succeeded", f"killed at point {point}"


def test_a_node_that_is_lost_before_its_gang_runs(start: Start) -> None:
    """All of the gang is taken back and given out again, and no attempt is used; the new nodes do
    not meet where the old ones would have."""
    script = start(workers=3)
    script.on("w1").link.mute_until = script.on("w1").link.deaf_until = 200.0
    job_id = script.gang()
    script.until(25.0)
    first = {task.worker_id for task in script.tasks(job_id)}
    assert "w1" in first
    assert script.job(job_id)[0].state == "scheduled"
    script.until(400.0)
    job, _, _ = script.job(job_id)
    assert (job.state, job.attempt) == ("succeeded", 1)
    tasks = sorted(script.tasks(job_id), key=lambda task: task.fence)
    assert [task.worker_id for task in tasks] == ["w0", "w1", "w0", "w2"]


def test_two_nodes_of_a_gang_are_lost_at_once(start: Start) -> None:
    """One had begun and the other had not: their workers fall silent in one instant. The end of
    one ends the other, once, and the plane goes on."""
    script = start()
    script.on("w1").link.deaf_until = 600.0
    job_id = script.gang()
    script.until(6.0)
    for worker in script.workers:
        worker.stop_agent(600.0)
    assert [task.state for task in script.tasks(job_id)] == [TaskState.RUNNING, TaskState.ASSIGNED]
    script.until(60.0)
    assert script.job(job_id)[0].state == "queued"
    assert {task.state for task in script.tasks(job_id)} == {TaskState.LOST}
    script.until(1_000.0)
    assert script.job(job_id)[0].state == "succeeded"


def test_a_drain_that_crosses_a_start(start: Start) -> None:
    """The worker's answer decides whether what it was given is handed back: one copy runs."""
    for moment in range(20):
        script = start()
        job_id = script.submit()
        script.until(5.0 + moment / 2_000)
        assert script.host.plane is not None
        for task in script.tasks(job_id):
            script.host.plane.drain(task.worker_id).result(0)
        script.until(200.0)
        job, _, runs = script.job(job_id)
        assert (job.state, job.attempt, runs) == ("succeeded", 1, 1)


def test_the_rest_of_a_log_that_a_later_attempt_has_closed(start: Start) -> None:
    """It is told so and sends no more: it is not asked for the same bytes for ever."""
    script = start(lambda name: Plan(8.0, 0, ((7.9, 1_500_000),), False))
    script.network.faults = Faults(delay=1.0)
    job_id = script.submit(**AGAIN)
    while not script.where():
        script.until(script.engine.now + 0.1)
    first = script.on(runs_on(script))
    while script.where():
        script.until(script.engine.now + 0.1)
    script.until(script.engine.now + 0.1)
    first.stop_agent(45.0)
    script.until(80.0)
    script.network.faults = Faults()
    script.until(200.0)
    assert script.job(job_id)[0].state == "succeeded"
    assert not first.disk
    assert script.engine.events < 3_000
