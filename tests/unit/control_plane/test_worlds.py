"""What a task ran in is kept with its attempt, once, and its document as long as the job."""

from __future__ import annotations

import pytest

from gpulayer.contracts.messages import TaskReport
from tests.support.env import Env, EnvWorker

WORLD, OTHER = "a" * 64, "b" * 64


def _placed(env: Env, **wishes: int) -> tuple[EnvWorker, str]:
    worker = env.worker()
    job = env.submit(**wishes, retry_on=("failed",))
    env.run_pass()
    worker.acquire()
    return worker, job


def _ended(worker: EnvWorker, job: str, world: str, code: int = 0) -> None:
    end = worker.ending(worker.task(job), code)
    told = {name: getattr(end, name) for name in TaskReport.__slots__}
    worker.report(TaskReport(**{**told, "world": world}))


@pytest.mark.parametrize("is_short", [False, True], ids=["start first", "with its end"])
def test_it_is_said_with_the_start_or_the_end_and_stays(is_short: bool) -> None:
    with Env() as env:
        worker, job = _placed(env)
        held = worker.task(job)
        if not is_short:
            began = env.clock.now()
            worker.report(TaskReport(held.task_id, held.fence, "running", began, world=WORLD))
            assert env.plane.job(job)["world"] == WORLD
        _ended(worker, job, WORLD if is_short else OTHER)
        assert env.plane.job(job)["world"] == WORLD
        assert WORLD in env.digests_in_use


@pytest.mark.parametrize("said", ["", "A" * 64, "../etc", "a" * 63])
def test_what_is_no_digest_is_not_kept(said: str) -> None:
    with Env() as env:
        worker, job = _placed(env)
        _ended(worker, job, said)
        assert env.plane.job(job)["world"] is None


def test_each_attempt_has_its_own() -> None:
    with Env() as env:
        worker, job = _placed(env, retries=1)
        _ended(worker, job, WORLD, code=1)
        env.advance(20)
        worker.report()
        env.run_pass()
        worker.acquire()
        assert env.plane.job(job)["world"] is None  # that of the new one is not known yet
        _ended(worker, job, OTHER)
        assert env.plane.job(job)["world"] == OTHER
        assert {WORLD, OTHER} <= env.digests_in_use
