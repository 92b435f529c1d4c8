"""What the plane's border accepts, refuses, and gives an id."""

from __future__ import annotations

import re

import pytest

from gpulayer.control_plane.submission import Submission
from gpulayer.errors import GPULayerError, NotFoundError, RefusedError, SpecError, UsageError
from tests.support.env import Env


def _slug(raised: pytest.ExceptionInfo[GPULayerError]) -> str:
    return raised.value.code


def test_an_id_is_the_name_and_eight_characters() -> None:
    with Env() as env:
        assert re.fullmatch(r"train-[0-9a-z]{8}", env.submit(name="train"))


def test_a_bad_spec_is_refused_with_all_its_problems() -> None:
    with Env() as env:
        with pytest.raises(SpecError) as raised:
            env.plane.submit([Submission({"name": "a/b", "workload": {"kind": "command"}})])
        assert len(raised.value.problems) >= 2
        assert env.plane.jobs(ended=True) == []


def test_what_is_not_built_is_refused_by_name() -> None:
    with Env() as env:
        with pytest.raises(RefusedError) as raised:
            env.submit(placement={"max_hourly_cost": 1.0})
        assert _slug(raised) == "not-yet"
        assert "max_hourly_cost" in str(raised.value)


def test_an_image_is_named_by_its_digest() -> None:
    with Env() as env:
        with pytest.raises(RefusedError) as raised:
            env.submit(image="python:3.12")
        assert _slug(raised) == "image-unresolved"
        image = f"python:3.12@sha256:{'0' * 64}"
        assert env.plane.job(env.submit(image=image))["spec"]["image"] == image


def test_a_batch_is_accepted_whole_or_not_at_all() -> None:
    with Env() as env:
        env.submit("true", key="taken")
        good, conflict = env.spec("echo"), env.spec("false")
        with pytest.raises(RefusedError):
            env.plane.submit(
                [Submission(good), Submission(conflict, idempotency_key="taken")]
            ).result(0)
        assert len(env.plane.jobs()) == 1
        jobs = env.plane.submit([Submission(good), Submission(good)]).result(0)
        assert len({job.id for job in jobs}) == 2
        assert len(env.plane.jobs()) == 3


def test_a_full_queue_refuses_and_keeps_what_it_has() -> None:
    with Env(unfinished_jobs=2) as env:
        first, second = env.submit(key="a"), env.submit()
        with pytest.raises(RefusedError) as raised:
            env.submit()
        assert _slug(raised) == "plane-full"
        assert env.submit(key="a") == first, "a repeated submission is no new job"
        env.plane.cancel(second).result(0)
        env.submit()


def test_sizes_have_limits() -> None:
    with Env(batch_jobs=2, origin_bytes=200, key_characters=5) as env:
        spec = env.spec()
        env.plane.submit([Submission(spec)] * 2).result(0)
        with pytest.raises(RefusedError):
            env.plane.submit([Submission(spec)] * 3)
        with pytest.raises(RefusedError):
            env.submit(origin={"cwd": "x" * 300})
        env.submit(key="12345")
        with pytest.raises(UsageError):
            env.submit(key="123456")


def test_a_retry_is_a_new_job_that_names_the_old_one() -> None:
    with Env() as env:
        worker = env.worker()
        old = env.submit("false", priority=7)
        with pytest.raises(RefusedError) as raised:
            env.plane.retry(old)
        assert _slug(raised) == "job-not-finished"
        env.run(worker, old, code=1)
        again = env.plane.retry(old, idempotency_key="r").result(0)
        assert (again.retry_of, again.priority, again.spec) == (old, 7, env.job(old).spec)
        assert env.plane.retry(old, idempotency_key="r").result(0).id == again.id
        assert env.state(old) == "failed"


def test_selectors_are_ids_prefixes_names_and_last() -> None:
    with Env() as env:
        first = env.submit(name="train", origin={"session": "mine"})
        second = env.submit(name="train", origin={"session": "other"})
        assert env.plane.find(first[:10]).id == first
        assert env.plane.find("train").id == second
        assert env.plane.find("last").id == second
        assert env.plane.find("last", "mine").id == first
        with pytest.raises(GPULayerError) as raised:
            env.plane.find("nothing")
        assert _slug(raised) == "job-not-found"


def test_leaving_cancels_the_jobs_of_one_session_and_no_others() -> None:
    with Env() as env:
        worker = env.worker(cores=1)
        running = env.submit(origin={"session": "mine"})
        env.run_pass()
        worker.acquire()
        worker.start(running)
        queued = env.submit(origin={"session": "mine"})
        foreign = env.submit(origin={"session": "other"})
        env.plane.cancel_session("mine").result(0)
        assert (env.state(queued), env.state(foreign)) == ("cancelled", "queued")
        worker.finish(running, code=143, outcome="cancelled")
        assert env.job(running).reason == "shutdown"


def test_many_are_cancelled_in_one_commit_or_none_of_them() -> None:
    with Env() as env:
        jobs = [env.submit(name=name) for name in ("first", "second", "third")]
        with pytest.raises(NotFoundError):
            env.plane.cancel([*jobs, "nobody"]).result(0)
        assert [env.state(job) for job in jobs] == ["queued"] * 3
        before, commits = env.plane.cancel(jobs[2]).result(0), env.store.commits
        asked = env.plane.cancel(["first", jobs[0], "second", jobs[2]]).result(0)
        assert env.store.commits == commits + 1
        assert [(job.id, job.state) for job in asked] == [
            (jobs[0], "queued"),
            (jobs[1], "queued"),
            (jobs[2], "cancelled"),
        ]
        assert [job.state for job in before] == ["queued"]
        assert [env.state(job) for job in jobs] == ["cancelled"] * 3


def test_a_cancel_needs_a_known_way() -> None:
    with Env() as env:
        job = env.submit()
        with pytest.raises(UsageError):
            env.plane.cancel(job, mode="gently")


def test_ends_of_a_session_come_in_their_order_and_once() -> None:
    with Env() as env:
        worker = env.worker()
        jobs = [env.submit(origin={"session": "s"}) for _ in range(3)]
        other = env.submit(origin={"session": "t"})
        for job in (jobs[2], other, jobs[0]):
            env.run_pass()
            worker.acquire()
            worker.start(job)
            worker.finish(job)
        ended, after = env.plane.ended("s", 0)
        assert [job["id"] for job in ended] == [jobs[2], jobs[0]]
        assert env.plane.ended("s", after) == ([], after)
        env.plane.cancel(jobs[1], mode="kill").result(0)
        worker.acquire()
        worker.finish(jobs[1], code=137, outcome="cancelled")
        assert [job["id"] for job in env.plane.ended("s", after)[0]] == [jobs[1]]
