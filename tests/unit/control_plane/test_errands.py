"""Errands: whom they reach, and what is said of those whom they do not."""

from __future__ import annotations

import pytest

from gpulayer.contracts.messages import ErrandDone
from gpulayer.control_plane.errands import COME_SECONDS
from gpulayer.errors import NotFoundError
from tests.support.env import Env, EnvWorker


def answer(worker: EnvWorker, errand_id: str, **fields: object) -> None:
    done = ErrandDone(worker.name, worker.incarnation, errand_id, **fields)  # type: ignore[arg-type]
    worker.env.plane.errand_done(done)


def test_an_errand_is_handed_out_until_it_is_answered() -> None:
    with Env() as env:
        worker = env.worker("w1", errands=True)
        with env.plane.wakeups.subscribe("worker:w1") as parked:
            asked = env.plane.send_errand("caches", {})
            assert parked.wait(0), "its parked acquire is answered at once"
        (errand,) = worker.acquire(lost=True).errands
        assert worker.acquire().errands == (), "the answer may be on its way"
        env.clock.advance(env.settings.redeliver_seconds)
        assert worker.acquire().errands == (errand,)
        worker.register(restarted=True)
        assert env.plane.errand_answers(asked, last=False) is None
        answer(worker, errand.id, answer={"artifacts": {"count": 1, "bytes": 2}})
        assert worker.acquire().errands == ()
        (told,) = env.plane.errand_answers(asked, last=False) or []
        assert (told["name"], told["state"]) == ("w1", "answered")
        assert told["answer"] == {"artifacts": {"count": 1, "bytes": 2}}


def test_of_a_worker_that_cannot_answer_it_is_said_why() -> None:
    with Env() as env:
        env.worker("old")
        env.worker("gone", errands=True)
        env.clock.advance(env.settings.lease_seconds)
        slow, failing = env.worker("slow", errands=True), env.worker("wrong", errands=True)
        env.workers["old"].report()
        asked = env.plane.send_errand("caches", {})
        (errand,) = failing.acquire().errands
        answer(failing, errand.id, why="no such folder")
        assert env.plane.errand_answers(asked, last=False) is None
        told = env.plane.errand_answers(asked, last=True) or []
        assert [(one["name"], one["state"]) for one in told] == [
            ("gone", "away"), ("old", "older"), ("slow", "silent"), ("wrong", "failed"),
        ]  # fmt: skip
        assert told[3]["why"] == "no such folder"
        assert all(one["why"] and one["answer"] is None for one in told)
        assert slow.acquire().errands == (), "nobody waits for it any more"


def test_after_its_start_a_plane_waits_for_workers_that_it_knows() -> None:
    with Env() as env:
        env.worker("w1", errands=True)
        env.restart_plane()
        asked = env.plane.send_errand("caches", {})
        assert env.plane.errand_answers(asked, last=False) is None
        env.clock.advance(COME_SECONDS)
        (told,) = env.plane.errand_answers(asked, last=False) or []
        assert told["state"] == "away"


def test_users_are_told_by_their_jobs() -> None:
    with Env() as env:
        worker = env.worker("w1", errands=True)
        job = env.submit()
        env.run_pass()
        task = worker.acquire().assignments[0].task_id
        asked = env.plane.send_errand("caches", {}, only=["w1"])
        (errand,) = worker.acquire().errands
        environments = [{"key": "k", "used_by": [task, "t999"]}]
        answer(worker, errand.id, answer={"environments": environments})
        (told,) = env.plane.errand_answers(asked, last=False) or []
        assert told["answer"] == {"environments": [{"key": "k", "used_by": [str(job)]}]}


def test_only_those_that_are_named_are_asked() -> None:
    with Env() as env:
        one, other = env.worker("w1", errands=True), env.worker("w2", errands=True)
        env.plane.send_errand("caches", {}, only=["w2"])
        assert one.acquire().errands == ()
        assert len(other.acquire().errands) == 1
        with pytest.raises(NotFoundError):
            env.plane.send_errand("caches", {}, only=["w3"])
