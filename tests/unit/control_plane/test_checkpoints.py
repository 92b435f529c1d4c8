"""Checkpoints at the plane: taken from the attempt that lives, given to the one that follows."""

from __future__ import annotations

import os
from typing import Any

import pytest

from gpulayer.contracts import keeping
from gpulayer.contracts.messages import CheckpointKept, Held, KeepCheckpoint
from gpulayer.errors import UsageError
from tests.support.env import Env, EnvWorker

WISH = {"checkpoint": {"path": "ck"}}


def stored(env: Env, data: bytes, path: str = "w") -> dict[str, Any]:
    digest, size = env.artifacts.put_stream([data])
    return {"path": path, "digest": digest, "size": size, "executable": False, "mtime_ns": 7}


def keep(env: Env, held: Held, at: float, *files: dict[str, Any], note: str = "") -> CheckpointKept:
    message = KeepCheckpoint(held.fence, at, at, files, note)
    return env.plane.keep_checkpoint(held.task_id, message).result(0)


def begun(env: Env, worker: EnvWorker, job: str) -> Held:
    env.run_pass()
    worker.acquire()
    worker.start(job)
    return worker.task(job)


def test_the_next_attempt_is_given_what_the_last_one_left_newest_first() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(retries=1, retry_on=("failed",), **WISH)
        held = begun(env, worker, job)
        assert worker.assignments[held.task_id].checkpoints == ()
        for at in (1.0, 2.0, 3.0):
            assert keep(env, held, at, stored(env, b"x" * int(at))).kept
        told = env.plane.job(job)["checkpoint"]
        assert told == {"attempt": 1, "at": 3.0, "size": 3, "files": 1}
        worker.finish(job, code=1)
        env.advance(5)
        again = begun(env, worker, job)
        given = worker.assignments[again.task_id].checkpoints
        assert [(one["attempt"], one["at"], one["size"]) for one in given] == [
            (1, 3.0, 3),
            (1, 2.0, 2),
        ]
        digest = given[0]["files"][0]["digest"]
        assert env.plane.needs_artifact("w1", digest)
        worker.finish(job)
        assert not env.plane.needs_artifact("w1", digest)


def test_an_attempt_that_is_over_changes_nothing_whenever_its_word_comes() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(retries=1, **WISH)
        old = begun(env, worker, job)
        assert keep(env, old, 1.0, stored(env, b"old")).kept
        worker.register(restarted=True, keeps=False)  # so it is lost
        env.advance(5)
        new = begun(env, worker, job)
        assert keep(env, new, 2.0, stored(env, b"new")).kept
        late = keep(env, old, 9.0, stored(env, b"late"))
        assert (late.kept, late.over) == (False, True)
        wrong = Held(new.task_id, old.fence, "running")
        assert keep(env, wrong, 9.0, stored(env, b"late")).over
        assert env.plane.job(job)["checkpoint"]["at"] == 2.0
        worker.finish(job)
        assert keep(env, new, 10.0, stored(env, b"late")).over


def test_of_one_attempt_an_older_cut_that_comes_late_or_twice_changes_nothing() -> None:
    with Env() as env:
        job = env.submit(**WISH)
        held = begun(env, env.worker(), job)
        file = stored(env, b"abc")
        assert keep(env, held, 5.0, file).kept
        assert not keep(env, held, 5.0, file).kept
        late = keep(env, held, 4.0, stored(env, b"older"))
        assert (late.kept, late.over) == (False, False)
        assert env.plane.job(job)["checkpoint"]["at"] == 5.0


def test_files_that_the_plane_lacks_are_named_and_nothing_is_recorded() -> None:
    with Env() as env:
        job = env.submit(**WISH)
        held = begun(env, env.worker(), job)
        here, gone = stored(env, b"here", "a"), stored(env, b"gone", "b")
        env.artifacts.delete(gone["digest"])
        answer = keep(env, held, 5.0, here, gone)
        assert (answer.kept, answer.missing) == (False, (gone["digest"],))
        assert env.plane.job(job)["checkpoint"] is None


def test_a_list_that_leads_out_of_the_folder_is_refused() -> None:
    with Env() as env:
        held = begun(env, env.worker(), env.submit(**WISH))
        with pytest.raises(UsageError):
            keep(env, held, 1.0, {**stored(env, b"x"), "path": "../x"})


def test_the_story_tells_of_the_first_and_then_now_and_then() -> None:
    with Env() as env:
        job = env.submit(**WISH)
        held = begun(env, env.worker(), job)
        file = stored(env, b"x")
        for at in range(1, 400):
            keep(env, held, float(at), file)
            env.clock.advance(1)
        assert env.story(job).count("checkpoint") == 2
        assert not keep(env, held, 999.0, note="open for writing: log.txt").kept
        told = env.plane.events(job)[-1]
        assert told["message"] == "not kept: open for writing: log.txt"


def test_a_job_without_one_costs_no_look_at_them() -> None:
    with Env() as env:
        asked: list[str] = []
        tx = env.store._commits._tx
        execute = tx._execute

        def counting(sql: str, parameters: Any) -> Any:
            asked.append(sql)
            return execute(sql, parameters)

        tx._execute = counting
        env.run(env.worker(), env.submit())
        assert asked
        assert not any("checkpoints" in sql for sql in asked)


def test_gc_keeps_what_an_unfinished_or_failed_job_may_go_on_from() -> None:
    with Env() as env:
        worker = env.worker(cores=8)
        files = {name: stored(env, name.encode()) for name in ("live", "good", "bad", "old")}
        jobs = {name: env.submit(name=name, **WISH) for name in files}
        env.run_pass()
        worker.acquire()
        for name, job in jobs.items():
            worker.start(job)
            keep(env, worker.task(job), 1.0, files[name])
        worker.finish(jobs["old"], code=1)
        env.clock.advance(keeping.CHECKPOINT_SECONDS + 1)
        worker.finish(jobs["good"])
        worker.finish(jobs["bad"], code=1)
        for file in files.values():
            os.utime(env.artifacts.path(file["digest"]), (1000.0, 1000.0))
        assert env.plane.gc(dry_run=True).artifacts == 2
        assert env.plane.gc().artifacts == 2
        here = {name for name, file in files.items() if env.artifacts.has(file["digest"])}
        assert here == {"live", "bad"}
        assert env.plane.job(jobs["good"])["checkpoint"] is None
