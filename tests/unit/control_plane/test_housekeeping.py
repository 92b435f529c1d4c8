"""Collection: what goes, what never goes."""

from __future__ import annotations

import os

import pytest

from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import NotFoundError
from tests.support.env import Env, EnvWorker


def _ended(env: Env, worker: EnvWorker, *outputs: str) -> str:
    job = env.submit()
    files = tuple(
        {"path": f"{n}.txt", "digest": digest, "size": 3} for n, digest in enumerate(outputs)
    )
    env.run(worker, job, log=b"12345", outputs=files)
    return job


def _artifact(env: Env, data: bytes, age: float) -> str:
    digest, _ = env.artifacts.put_stream([data])
    then = env.clock.now() - age
    os.utime(env.artifacts.path(digest), (then, then))
    return digest


def test_old_ended_jobs_go_with_their_logs() -> None:
    with Env() as env:
        worker = env.worker()
        old = _ended(env, worker)
        env.clock.advance(100)
        worker.report()
        young = _ended(env, worker)
        queued = env.submit()
        wish = env.plane.gc(dry_run=True, older_than=50)
        assert (wish.jobs, wish.log_bytes) == (1, 5)
        assert len(env.plane.jobs(ended=True)) == 3
        env.laws.forget(old)
        done = env.plane.gc(older_than=50)
        assert (done.jobs, done.log_bytes) == (1, 5)
        assert {job["id"] for job in env.plane.jobs(ended=True)} == {young, queued}
        assert env.plane.gc(older_than=50).jobs == 0


def test_history_is_limited_by_number_and_age() -> None:
    with Env(history_jobs=2, history_seconds=1000.0) as env:
        worker = env.worker()
        jobs = [_ended(env, worker) for _ in range(4)]
        for job in jobs[:2]:
            env.laws.forget(job)
        assert env.plane.gc().jobs == 2
        assert {job["id"] for job in env.plane.jobs(ended=True)} == set(jobs[2:])


def test_what_is_forgotten_by_itself_is_history_and_nothing_that_somebody_put_there() -> None:
    with Env(history_jobs=1, history_seconds=1000.0) as env:
        worker = env.worker()
        put = _artifact(env, b"put for a job to come", 9999)
        old, young = _artifact(env, b"abc", 9999), _artifact(env, b"def", 9999)
        jobs = [_ended(env, worker, digest) for digest in (old, young)]
        env.laws.forget(jobs[0])
        gone = env.plane.forget_old()
        assert (gone.jobs, gone.artifacts) == (1, 1)
        assert [env.artifacts.has(d) for d in (put, old, young)] == [True, False, True]


def test_an_artifact_goes_when_no_job_names_it_and_it_is_not_brand_new() -> None:
    with Env() as env:
        worker = env.worker()
        named = _artifact(env, b"abc", 9999)
        unnamed = _artifact(env, b"defg", 9999)
        fresh = _artifact(env, b"hi", 10)
        _ended(env, worker, named)
        wish = env.plane.gc(dry_run=True)
        assert (wish.artifacts, wish.artifact_bytes) == (1, 4)
        done = env.plane.gc()
        assert (done.artifacts, done.artifact_bytes) == (1, 4)
        assert [env.artifacts.has(d) for d in (named, unnamed, fresh)] == [True, False, True]


def test_a_dry_run_counts_the_artifacts_of_the_jobs_that_would_go() -> None:
    with Env() as env:
        worker = env.worker()
        digest = _artifact(env, b"abc", 9999)
        job = _ended(env, worker, digest)
        env.clock.advance(100)
        assert env.plane.gc(dry_run=True, older_than=50).artifacts == 1
        assert env.artifacts.has(digest)
        env.laws.forget(job)
        assert env.plane.gc(older_than=50).artifacts == 1


def test_what_the_spec_of_a_listed_job_names_stays() -> None:
    """Of an unfinished one since it will run, of an ended one since it may be tried again."""
    with Env() as env:
        worker = env.worker()
        source, item, words, unnamed = (
            _artifact(env, data, 0) for data in (b"a", b"b", b"c", b"d")
        )
        workload = {"kind": "command", "command": ["true"], "source": f"{ADDRESS}{source}"}
        ended = env.submit(workload=workload)
        inputs = [{"artifact": f"{ADDRESS}{item}", "path": "x"}]
        env.submit(inputs=inputs, stdin=f"{ADDRESS}{words}")
        env.run(worker, ended)
        for digest in (source, item, words, unnamed):
            os.utime(env.artifacts.path(digest), (1000.0, 1000.0))
        assert env.plane.gc().artifacts == 1
        assert all(map(env.artifacts.has, (source, item, words)))
        assert not env.artifacts.has(unnamed)
        env.clock.advance(10)
        assert env.plane.gc(dry_run=True, older_than=5).artifacts == 1
        env.laws.forget(ended)
        assert env.plane.gc(older_than=5).artifacts == 1
        assert not env.artifacts.has(source)


def test_a_job_that_names_an_artifact_that_is_not_here_is_refused() -> None:
    with Env() as env:
        inputs = [{"artifact": ADDRESS + "0" * 64, "path": "x"}]
        with pytest.raises(NotFoundError) as refused:
            env.submit(inputs=inputs)
        assert refused.value.code == "artifact-not-found"
        assert env.plane.jobs() == []


def test_a_submission_makes_what_it_names_young_before_it_is_listed() -> None:
    with Env() as env:
        digest = _artifact(env, b"abc", 9999)
        env.submit(inputs=[{"artifact": ADDRESS + digest, "path": "x"}])
        assert env.artifacts.age_seconds(digest, env.clock.now()) < 3600
