"""Reservations of a whole plane: from the limits of what runs, stored, told, and replayed."""

from __future__ import annotations

from typing import Any

from gpulayer.contracts.ids import JobId
from gpulayer.control_plane.scheduler.replay import replay
from tests.support.env import Env, EnvWorker


def two_of_four_cores_are_busy(env: Env, **job: Any) -> EnvWorker:
    """And a job that needs all four waits."""
    worker = env.worker(cores=4)
    running = env.submit(cores=2, **job)
    env.run_pass()
    worker.acquire()
    worker.start(running)
    return worker


def stored_of(env: Env, job: str) -> dict[str, Any]:
    """What was stored with the newest decision about a job."""
    with env.store.read() as reader:
        stored = reader.stored_decision(JobId(job))
    assert stored is not None
    assert stored.inputs is not None
    return dict(stored.inputs)


def test_a_job_that_would_end_too_late_waits_behind_the_reservation() -> None:
    with Env() as env:
        worker = two_of_four_cores_are_busy(env, timeout_seconds=600)
        wide = env.submit(cores=4)
        long = env.submit(timeout_seconds=3_600)
        short = env.submit(timeout_seconds=60)
        env.run_pass()
        assert [env.state(job) for job in (wide, long, short)] == ["queued", "queued", "scheduled"]
        decision = env.plane.decision(long)
        assert decision is not None
        assert f"waits behind the reservation of {wide} for about " in decision["summary"]
        (checks,) = [v["checks"] for v in decision["verdicts"]]
        assert (checks[0]["name"], checks[0]["fit"]) == ("reservation", "busy")
        worker.acquire()
        worker.finish(short)
        env.run_pass()
        assert env.state(long) == "queued"


def test_what_is_stored_of_it_gives_the_same_answer_again() -> None:
    with Env() as env:
        two_of_four_cores_are_busy(env, timeout_seconds=600)
        jobs = [env.submit(cores=4), env.submit(), env.submit(timeout_seconds=9)]
        env.run_pass()
        for job in jobs:
            stored = stored_of(env, job)
            again = replay(stored)
            told = env.plane.decision(job)
            assert told is not None
            assert (again.summary, again.outcome) == (told["summary"], told["outcome"])


def test_without_limits_nobody_is_held_up_for_the_first_ten_minutes() -> None:
    with Env() as env:
        worker = two_of_four_cores_are_busy(env)
        wide = env.submit(cores=4)
        first = env.submit()
        env.run_pass()
        assert env.state(first) == "scheduled"
        worker.acquire()
        worker.finish(first)
        for _ in range(61):
            env.advance(10)
            worker.report()
        late = env.submit()
        env.run_pass()
        assert [env.state(wide), env.state(late)] == ["queued", "queued"]
        assert env.plane.decision(late)["summary"] == (  # type: ignore[index]
            f"waits behind the reservation of {wide}"
        )


def test_where_all_that_waits_is_alike_no_limit_is_looked_up() -> None:
    with Env() as env:
        two_of_four_cores_are_busy(env, timeout_seconds=600)
        jobs = [env.submit() for _ in range(3)]
        env.run_pass()
        stored = stored_of(env, jobs[-1])
        assert "now" not in stored["snapshot"]["limits"]
        held = [a for w in stored["snapshot"]["workers"] for a in w["allocations"]]
        assert all(a["until"] is None for a in held)
