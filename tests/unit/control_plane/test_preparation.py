"""What a preparation took is told once, before the start, and never counted as run."""

from __future__ import annotations

import pytest

from gpulayer.contracts.messages import Preparation, PreparedStep, TaskReport
from gpulayer.errors import UsageError
from tests.support.env import Env, EnvWorker

TOOK = Preparation(2.25, (PreparedStep("source", 0.25), PreparedStep("environment", 2.0, "by uv")))


def _placed(env: Env) -> tuple[EnvWorker, str]:
    worker = env.worker()
    job = env.submit()
    env.run_pass()
    worker.acquire()
    worker.report()
    return worker, job


def test_the_phase_that_takes_long_is_seen_while_it_lasts() -> None:
    with Env() as env:
        worker, job = _placed(env)
        held = worker.task(job)
        worker.report(TaskReport(held.task_id, held.fence, "environment"))
        assert env.plane.job(job)["phase"] == "environment"
        worker.report()  # the inventory still says `staging`
        assert (env.plane.job(job)["phase"], env.state(job)) == ("environment", "scheduled")
        worker.start(job)
        assert env.plane.job(job)["phase"] == "running"


@pytest.mark.parametrize("is_short", [False, True], ids=["start first", "with its end"])
def test_it_is_an_event_before_the_start(is_short: bool) -> None:
    with Env() as env:
        worker, job = _placed(env)
        held = worker.task(job)
        if not is_short:
            began = env.clock.now()
            worker.report(TaskReport(held.task_id, held.fence, "running", began, preparation=TOOK))
            assert env.plane.job(job)["started_at"] == began
        end = worker.ending(held)
        told = {name: getattr(end, name) for name in TaskReport.__slots__}
        worker.report(TaskReport(**{**told, "preparation": TOOK}))
        assert env.story(job)[-3:] == ["prepared", "started", "finished"]
        found = env.plane.job(job)
        assert found["preparation"]["seconds"] == 2.25
        assert [step["name"] for step in found["preparation"]["steps"]] == ["source", "environment"]
        [event] = [e for e in env.plane.events(job) if e["kind"] == "prepared"]
        assert event["data"] == found["preparation"]
        assert event["message"] == "2.2 s: source 0.2 s, environment 2.0 s (by uv)"


def test_what_a_worker_tells_of_it_is_bounded_and_must_fit() -> None:
    with Env() as env:
        worker, job = _placed(env)
        held = worker.task(job)
        steps = tuple(PreparedStep("n" * 999, 0.1, "w" * 999) for _ in range(99))
        took = Preparation(1.0, steps)
        worker.report(TaskReport(held.task_id, held.fence, "running", 5.0, preparation=took))
        kept = env.plane.job(job)["preparation"]["steps"]
        assert len(kept) == 16
        assert {len(step["name"]) for step in kept} == {len(step["note"]) for step in kept} == {200}
        worker.finish(job)
    news = {"task_id": "t", "fence": 1, "preparation": {"seconds": "long"}}
    with pytest.raises(UsageError):
        TaskReport.from_json(news)


def test_it_travels_as_it_is() -> None:
    news = TaskReport("t", 1, "running", 5.0, preparation=TOOK)
    assert TaskReport.from_json(news.to_json()) == news
