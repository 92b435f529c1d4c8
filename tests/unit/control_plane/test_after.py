"""Jobs that come after others: held until these have ended, and ended where they waited in vain."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.errors import NotFoundError, RefusedError
from tests.support.env import Env


def after(*wishes: str) -> list[dict[str, Any]]:
    """`ID` or `ID:any`."""
    named = [wish.partition(":") for wish in wishes]
    return [{"job": job, "when": when or "ok"} for job, _, when in named]


def test_it_waits_until_all_that_it_comes_after_have_succeeded() -> None:
    with Env() as env:
        worker = env.worker(cores=4)
        first, second = env.submit(), env.submit()
        job = env.submit(after=after(first, second))
        assert env.job(job).message == f"waits for {', '.join(sorted([first, second]))}"
        assert env.plane.job(job)["reason"] == "dependency"
        assert env.plane.decision(job) is None
        assert env.plane.outlook(job) is None
        env.run_pass()
        env.run(worker, first)
        env.run_pass()
        assert (env.state(job), env.job(job).message) == ("queued", f"waits for {second}")
        env.advance(5)
        env.run(worker, second)
        env.run_pass()
        assert env.state(job) == "scheduled"
        assert env.job(job).not_before == env.job(second).finished_at, "its turn begins there"
        env.run(worker, job)
        assert env.story(job)[:4] == ["submitted", "went_on", "released", "placed"]


@pytest.mark.parametrize("code", [0, 1])
def test_after_the_end_of_one_whatever_it_was(code: int) -> None:
    with Env() as env:
        worker = env.worker(cores=4)
        first = env.submit()
        any_end, good_end = env.submit(after=after(f"{first}:any")), env.submit(after=after(first))
        env.run_pass()
        env.run(worker, first, code)
        env.run_pass()
        assert env.state(any_end) == "scheduled"
        assert env.state(good_end) == ("failed" if code else "scheduled")


def test_what_waits_in_vain_fails_with_all_that_waits_for_it() -> None:
    with Env() as env:
        worker = env.worker(cores=4)
        first = env.submit()
        second = env.submit(after=after(first))
        third, clean = env.submit(after=after(second)), env.submit(after=after(f"{second}:any"))
        array = env.submit(array={"count": 3}, after=after(second))
        env.run_pass()
        env.run(worker, first, 1)
        env.run_pass()
        states = [env.state(job) for job in (second, third, array, clean)]
        assert states == ["failed", "failed", "failed", "scheduled"]
        failed = env.plane.job(third)
        assert failed["message"] == f"{second}, which it was to come after, has failed"
        assert failed["result"]["error"]["slug"] == "dependency-failed"


def test_an_array_comes_after_a_job_and_a_job_after_all_of_an_array() -> None:
    with Env() as env:
        worker = env.worker(cores=4)
        first = env.submit()
        array = env.submit(array={"count": 2}, after=after(first))
        last = env.submit(after=after(array))
        env.run_pass()
        assert env.progress(array).live == 0
        env.run(worker, first)
        env.run_pass()
        for task in env.tasks(array):
            assert env.state(last) == "queued"
            worker.acquire()
            worker.start(task)
            worker.finish(task)
        env.run_pass()
        assert (env.state(array), env.state(last)) == ("succeeded", "scheduled")


def test_one_that_is_cancelled_ends_those_behind_it_and_one_tried_again_does_not() -> None:
    with Env() as env:
        worker = env.worker(cores=4)
        retried = env.submit(retry={"max_attempts": 2, "retry_on": ["failed"]})
        waits = env.submit(after=after(retried))
        stopped = env.submit()
        vain = env.submit(after=after(stopped))
        env.plane.cancel(stopped).result(0)
        env.run_pass()
        assert env.state(vain) == "failed"
        assert "was cancelled" in env.job(vain).message
        env.run(worker, retried, 1)
        env.run_pass()
        assert env.state(waits) == "queued"
        env.advance(5)
        env.run_pass()
        env.run(worker, retried)
        env.run_pass()
        assert env.state(waits) == "scheduled"


def test_what_was_cancelled_while_it_waited_stays_so() -> None:
    with Env() as env:
        worker = env.worker(cores=4)
        first = env.submit()
        job = env.submit(after=after(first))
        env.plane.cancel(job).result(0)
        env.run_pass()
        env.run(worker, first)
        env.run_pass()
        assert env.state(job) == "cancelled"


def test_names_are_those_of_the_moment_and_ends_of_before_count() -> None:
    with Env() as env:
        worker = env.worker(cores=4)
        good, bad = env.submit(name="good"), env.submit(name="bad")
        env.run_pass()
        env.run(worker, good)
        env.run(worker, bad, 3)
        job = env.submit(after=after("good"))
        assert env.job(job).spec["after"] == [{"job": good, "when": "ok"}]
        env.submit(name="good")
        env.run_pass()
        assert env.state(job) == "scheduled"
        with pytest.raises(RefusedError, match=f"{bad}, which it was to come after") as refused:
            env.submit(after=after("bad"))
        assert refused.value.code == "dependency-failed"
        assert env.state(env.submit(after=after("bad:any"))) == "queued"
        with pytest.raises(NotFoundError, match="no job is called 'nobody'"):
            env.submit(after=after("nobody"))


def test_a_plane_that_was_killed_lets_go_of_what_waited() -> None:
    with Env() as env:
        worker = env.worker(cores=4)
        first = env.submit()
        job = env.submit(after=after(first))
        env.run_pass()
        worker.acquire()
        env.restart_plane()
        worker.register()
        worker.start(env.live_task(first))
        worker.finish(env.live_task(first))
        env.restart_plane()
        worker.register()
        env.run_pass()
        assert env.state(job) == "scheduled"
