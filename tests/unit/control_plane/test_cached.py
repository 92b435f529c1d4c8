"""A cached call is answered with the job that made it before, or is made."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts.changes import Changes
from gpulayer.contracts.records import Job, Output
from gpulayer.control_plane.cached import is_recorded
from gpulayer.control_plane.lifecycle.jobs import log_removed
from gpulayer.control_plane.submission import Submission
from gpulayer.errors import UsageError
from tests.support.env import Env, EnvWorker

HERE = {"call": {"tree": "a" * 64, "world": "b" * 64}}


def ask(env: Env, *argv: str, owner: str = "", key: str | None = None, refresh: bool = False,
        origin: dict[str, Any] | None = None, **spec: Any) -> Job:  # fmt: skip
    body = env.spec(*(argv or ("work",)), cache=True, **spec)
    origin = HERE if origin is None else origin
    asked = Submission(body, origin, key, None, owner, refresh)
    return env.plane.submit([asked]).result(0)[0]


def run(env: Env, worker: EnvWorker, job: Job, code: int = 0, **left: Any) -> None:
    env.run_pass()
    worker.acquire()
    worker.finish(job, code=code, **left)


def test_the_same_call_is_the_job_that_made_it() -> None:
    with Env() as env:
        worker = env.worker()
        first = ask(env)
        assert not is_recorded(first)
        run(env, worker, first)
        again = ask(env, name="other")
        assert again.id == first.id
        assert is_recorded(again)
        assert env.plane.counts().get("queued", 0) == 0
        assert ask(env, "other work").id != first.id


def test_one_that_waits_or_runs_is_no_answer_and_each_is_recorded() -> None:
    with Env() as env:
        worker = env.worker(cores=4)
        first, second = ask(env), ask(env)
        assert first.id != second.id
        run(env, worker, first)
        run(env, worker, second)
        assert ask(env).id == second.id  # the newest


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "cancelled"])
def test_a_bad_end_is_never_given_again(outcome: str) -> None:
    with Env() as env:
        worker = env.worker()
        first = ask(env)
        run(env, worker, first, code=1, outcome=outcome)
        again = ask(env)
        assert again.id != first.id
        assert not is_recorded(again)


def test_a_refreshed_call_runs_and_takes_its_place() -> None:
    with Env() as env:
        worker = env.worker()
        first = ask(env)
        run(env, worker, first)
        fresh = ask(env, refresh=True)
        assert fresh.id != first.id
        run(env, worker, fresh)
        assert ask(env).id == fresh.id


def test_what_is_not_whole_any_more_is_made_again() -> None:
    with Env() as env:
        worker = env.worker()
        first = ask(env)
        run(env, worker, first)
        lost = Output(first.id, 0, "out.txt", "f" * 64, 3)
        env.store.write(lambda tx: tx.apply(Changes(outputs=(lost,)))).result(0)
        second = ask(env)
        assert second.id != first.id
        run(env, worker, second)
        job = env.job(second.id)
        env.store.write(lambda tx: tx.apply(log_removed(job, 5, env.clock.now()))).result(0)
        assert ask(env).id != second.id


def test_nobody_is_given_what_another_made() -> None:
    with Env() as env:
        worker = env.worker()
        first = ask(env, owner="ann")
        run(env, worker, first)
        assert ask(env, owner="bo").id != first.id
        assert ask(env, owner="ann").id == first.id


def test_a_key_is_one_job_whatever_is_recorded() -> None:
    with Env() as env:
        worker = env.worker()
        first = ask(env)
        run(env, worker, first)
        fresh = ask(env, key="k", refresh=True)
        assert ask(env, key="k").id == fresh.id


def test_elsewhere_its_packages_are_named_or_it_is_refused() -> None:
    with Env() as env:
        with pytest.raises(UsageError, match="installed"):
            ask(env, origin={})
        assert ask(env, origin={}, environment={"requirements": ["numpy==2.0"]})


def test_a_retry_runs_and_is_not_recorded() -> None:
    with Env() as env:
        worker = env.worker()
        first = ask(env)
        run(env, worker, first)
        again = env.plane.retry(first.id, origin={}).result(0)
        assert (again.id != first.id, again.call_key) == (True, None)
        run(env, worker, again)
        assert ask(env).id == first.id
