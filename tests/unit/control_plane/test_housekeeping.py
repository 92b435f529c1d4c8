"""Collection: what goes, what never goes."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from functools import partial

import pytest

from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.contracts.ids import JobId, TaskId
from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import NotFoundError
from gpulayer.runtime import segments
from gpulayer.storage.tx import Tx
from tests.support.env import Env, EnvWorker

HOUR, DAY = 3_600.0, 86_400.0


def _ended(env: Env, worker: EnvWorker, *outputs: str) -> str:
    job = env.submit()
    files = tuple(
        {"path": f"{n}.txt", "digest": digest, "size": 3} for n, digest in enumerate(outputs)
    )
    ages = [os.stat(env.artifacts.path(digest)).st_mtime for digest in outputs]
    env.run(worker, job, log=b"12345", outputs=files)
    for digest, then in zip(outputs, ages, strict=True):
        os.utime(env.artifacts.path(digest), (then, then))  # it was told of at another time
    return job


def _artifact(env: Env, data: bytes, age: float) -> str:
    """As if it had been put then; not synced, since thousands are."""
    digest = hashlib.sha256(data).hexdigest()
    place = env.artifacts.folder / digest[:2] / digest
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(data)
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
        (kept,) = env.artifacts.stored()
        assert (kept.digest, env.clock.now() - kept.touched_at < 3600) == (digest, True)


def test_of_two_that_look_at_once_the_one_that_submits_is_right() -> None:
    """The job comes between the look at what is named and the removal."""

    class Late(Env):
        def restart_plane(self) -> None:
            self.artifacts = Interrupted(os.path.join(self.folder, "artifacts"))
            super().restart_plane()

    with Late() as env:
        digest = _artifact(env, b"abc", 9999)
        submit = partial(env.submit, inputs=[{"artifact": ADDRESS + digest, "path": "x"}])
        env.artifacts.then = submit
        assert env.plane.gc().artifacts == 0
        assert env.artifacts.has(digest)
        assert len(env.plane.jobs()) == 1


class Interrupted(LocalArtifacts):
    """Something else happens just before the first removal."""

    then: Callable[[], object] | None = None

    def delete(self, digest: str, before: float = math.inf) -> int | None:
        if self.then is not None:
            self.then()
        return super().delete(digest, before)


def test_nobody_s_artifacts_stay_for_a_week_when_nobody_asks() -> None:
    with Env() as env:
        young, old = _artifact(env, b"a", 6 * DAY), _artifact(env, b"b", 8 * DAY)
        assert env.plane.forget_old().artifacts == 1
        assert [env.artifacts.has(d) for d in (young, old)] == [True, False]
        assert env.plane.gc().artifacts == 1


def test_logs_past_their_limit_go_oldest_end_first_and_say_so() -> None:
    with Env(logs_bytes=12) as env:
        worker = env.worker()
        live = env.submit()
        env.run_pass()
        worker.acquire()
        worker.start(live)
        env.plane.append_log(env.live_task(live).id, env.live_task(live).fence, 0, b"L" * 5)
        jobs = []
        for _ in range(3):
            env.clock.advance(1)
            jobs.append(_ended(env, worker))
        wish = env.plane.gc(dry_run=True)
        assert (wish.logs, wish.log_bytes, wish.jobs) == (2, 10, 0)
        assert [(one.kind, one.name) for one in wish.items] == [("log", j) for j in jobs[:2]]
        assert env.plane.log(jobs[0]).data == b"12345"
        done = env.plane.gc()
        assert (done.logs, done.log_bytes, done.items) == (2, 10, wish.items)
        assert env.plane.log(live).data == b"L" * 5
        assert env.plane.log(jobs[2]).data == b"12345"
        for job in jobs[:2]:
            assert env.story(job)[-1] == "log_removed"
            (note,) = segments.decode(env.plane.log(job).data)
            assert note.stream == segments.NOTE
            assert note.data == b"its log of 5 B was removed, to make room for newer ones\n"
            assert env.plane.log(job).eof
        assert env.plane.gc().logs == 0
        assert [env.story(job).count("log_removed") for job in jobs] == [1, 1, 0]


def test_who_is_in_the_middle_of_a_log_that_goes_is_told() -> None:
    with Env(logs_bytes=0) as env:
        job = _ended(env, env.worker())
        env.plane.gc()
        with pytest.raises(NotFoundError) as refused:
            env.plane.log(job, "3")
        assert refused.value.code == "log-removed"
        for cursor in ("5", str(1 << 59)):
            rest = env.plane.log(job, cursor)
            assert (rest.data, rest.next, rest.eof) == (b"", cursor, True)


def test_a_silent_job_has_no_log_to_lose() -> None:
    with Env(logs_bytes=0) as env:
        job = env.submit()
        env.run(env.worker(), job)
        assert env.plane.gc().logs == 0
        assert (env.plane.log(job).data, env.plane.log(job).eof) == (b"", True)


def test_an_output_that_is_gone_when_its_end_is_told_is_named_and_not_listed() -> None:
    """Its worker was cut off for longer than nobody's artifacts stay."""
    with Env() as env:
        worker = env.worker()
        kept, lost = _artifact(env, b"kept", 9999), _artifact(env, b"lost", 9999)
        job = env.submit()
        env.run_pass()
        worker.acquire()
        worker.start(job)
        env.artifacts.delete(lost)
        files = [{"path": f"{d[:3]}.txt", "digest": d, "size": 4} for d in (kept, lost)]
        worker.finish(job, outputs=tuple(files))
        told = env.plane.job(job)
        assert [output["digest"] for output in told["outputs"]] == [kept]
        assert told["message"] == f"removed before it was told of: {lost[:3]}.txt"
        assert env.plane.gc().artifacts == 0


def test_the_remains_of_crashes_are_listed_and_go() -> None:
    with Env() as env:
        for folder, age in ((".new", 2 * HOUR), (".damaged", 31 * DAY)):
            path = os.path.join(env.folder, "artifacts", folder, "x")
            with open(path, "wb") as file:
                file.write(b"half")
            os.utime(path, (env.clock.now() - age,) * 2)
        env.logs.append(JobId("nobody-s"), TaskId("t1"), 0, b"abc")
        wish = env.plane.gc(dry_run=True)
        assert {(one.kind, one.name, one.bytes) for one in wish.items} == {
            ("remains", ".new/x", 4),
            ("remains", ".damaged/x", 4),
            ("remains", "nobody-s", 3),
        }
        assert env.plane.gc().items == wish.items
        assert env.plane.gc().items == ()


def test_a_collection_that_is_stopped_leaves_the_rest_to_the_next() -> None:
    with Env(logs_bytes=0) as env:
        digest = _artifact(env, b"abc", 9999)
        job = _ended(env, env.worker())
        env.plane.stop_forgetting()
        env.plane.gc()
        assert env.artifacts.has(digest)
        assert env.logs.sizes() == {job: 5}
        env.restart_plane()
        env.plane.gc()
        assert not env.artifacts.has(digest)
        assert env.logs.sizes() == {}


def _pages(tx: Tx) -> int:
    return int(tx._execute("PRAGMA page_count", ()).fetchone()[0])


def test_a_year_of_jobs_keeps_the_disk_flat() -> None:
    """The shape of 3,000 jobs a day for a year, at 2 a day: what is kept depends on the days that
    are kept and on the limits, never on how long the plane has run."""
    a_day = 2
    with Env(history_seconds=10 * DAY, logs_bytes=100) as env:
        worker = env.worker()
        seen = []
        for day in range(365):
            for number in range(a_day):
                env.clock.advance(DAY / a_day)
                worker.report()
                output = _artifact(env, b"%d %d" % (day, number), 0)
                env.laws.forget(_ended(env, worker, output))
                _artifact(env, b"nobody's %d %d" % (day, number), 0)
            env.plane.forget_old()
            with env.store.read() as reader:
                rows = sum(reader.counts().values())
            files = [kept.size for kept in env.artifacts.stored()]
            pages = env.store.write(_pages).result()
            seen.append((rows, len(files), sum(env.logs.sizes().values()), pages))
    settled = seen[30:]
    assert {rows for rows, _, _, _ in settled} <= {10 * a_day, 10 * a_day + 1}
    assert max(count for _, count, _, _ in settled) <= (10 + 7 + 1) * a_day
    assert max(logs for _, _, logs, _ in settled) <= 100
    assert seen[-1][3] <= seen[30][3] * 1.1
