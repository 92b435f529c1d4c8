"""The races of one machine, each by its number in the list of the state machines."""

from __future__ import annotations

import sqlite3

import pytest

from gpulayer.contracts.messages import Exit, Held, Report, TaskReport
from gpulayer.errors import StorageError
from gpulayer.storage.store import Store
from tests.support.env import Env
from tests.unit.control_plane.racing import running


def test_01_a_finish_after_the_lease_and_a_new_assignment_leaves_the_second_alone() -> None:
    with Env() as env:
        first, job = running(env, retries=1)
        env.advance(31)
        second = env.worker("w2")
        env.clock.advance(1)
        env.run_pass()
        assert env.live_task(job).worker_id == "w2"
        late = first.finish(job)
        assert late.recorded == ("t1",)
        assert env.state(job) == "scheduled"
        assert "late_report" in env.story(job)
        second.acquire()
        second.start(job)
        second.finish(job, code=4)
        assert env.job(job).exit_code == 4


def test_02_a_finish_after_the_lease_is_told_as_late() -> None:
    with Env() as env:
        worker, job = running(env, retries=1)
        env.advance(31)
        assert env.state(job) == "queued"
        worker.finish(job)
        assert env.state(job) == "queued"
        assert env.story(job)[-1] == "late_report"


def test_03_the_same_finish_twice_is_one_result() -> None:
    with Env() as env:
        worker, job = running(env)
        held = worker.task(job)
        reply = worker.report(worker.ending(held))
        assert worker.last_report is not None
        assert worker.say(worker.last_report) == reply
        assert reply.recorded == (held.task_id,)
        assert env.story(job).count("finished") == 1


def test_03_the_same_finish_after_a_new_plane_is_recorded_again_without_an_event() -> None:
    with Env() as env:
        worker, job = running(env)
        held = worker.task(job)
        news = worker.ending(held)
        worker.report(news)
        story = env.story(job)
        env.restart_plane()
        worker.held[held.task_id] = Held(held.task_id, held.fence, "exited")
        assert worker.report().ok is False
        worker.register()
        assert worker.report(news).recorded == (held.task_id,)
        assert env.story(job) == story


def test_04_of_two_different_finishes_the_first_one_counts() -> None:
    with Env() as env:
        worker, job = running(env)
        held = worker.task(job)
        worker.report(worker.ending(held, code=0))
        worker.report(worker.ending(held, code=9))
        assert env.state(job) == "succeeded"
        assert env.job(job).exit_code == 0
        assert env.story(job)[-1] == "late_report"


def test_05_cancel_and_placement_in_one_instant_have_one_winner() -> None:
    with Env() as env:
        worker = env.worker()
        cancelled_first = env.submit()
        env.plane.cancel(cancelled_first).result(0)
        assert env.run_pass() == 0
        assert env.state(cancelled_first) == "cancelled"
        placed_first = env.submit()
        env.run_pass()
        env.plane.cancel(placed_first).result(0)
        acquired = worker.acquire()
        assert [order.task_id for order in acquired.cancel] == [
            task.task_id for task in acquired.assignments
        ]
        worker.finish(placed_first, code=130, outcome="cancelled", started_at=None)
        assert env.state(placed_first) == "cancelled"
        assert "started" not in env.story(placed_first)


def test_06_a_job_cancelled_while_it_is_prepared_never_starts() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(retries=3, retry_on=("failed", "worker_lost"))
        env.run_pass()
        worker.acquire()
        worker.report()
        env.plane.cancel(job).result(0)
        assert [order.mode for order in worker.acquire().cancel] == ["term"]
        worker.finish(job, code=126, outcome="failed", reason="preparation", started_at=None)
        assert env.state(job) == "cancelled"
        assert env.job(job).started_at is None


def test_07_a_cancel_is_repeated_until_the_task_has_ended() -> None:
    with Env() as env:
        worker, job = running(env)
        env.plane.cancel(job, mode="int").result(0)
        assert worker.report().cancel[0].mode == "int"
        assert worker.report().cancel[0].mode == "int"
        env.plane.cancel(job, mode="kill").result(0)
        assert worker.acquire().cancel[0].mode == "kill"
        worker.finish(job, code=137, outcome="cancelled")
        assert worker.report().cancel == ()


@pytest.mark.parametrize("cancel_first", [True, False])
def test_08_a_cancel_as_the_process_succeeds_has_one_outcome(cancel_first: bool) -> None:
    with Env() as env:
        worker, job = running(env)
        if cancel_first:
            env.plane.cancel(job).result(0)
            worker.finish(job)
        else:
            worker.finish(job)
            env.plane.cancel(job).result(0)
        assert env.state(job) == ("cancelled" if cancel_first else "succeeded")


def test_10_a_cancel_in_a_lost_reply_comes_again() -> None:
    with Env() as env:
        worker, job = running(env)
        env.plane.cancel(job).result(0)
        assert worker.acquire(lost=True).cancel
        assert worker.acquire().cancel == ()
        env.clock.advance(env.settings.redeliver_seconds)
        assert worker.acquire().cancel


def test_10_an_assignment_in_a_lost_reply_comes_again() -> None:
    with Env() as env:
        worker = env.worker()
        env.submit()
        env.run_pass()
        (lost,) = worker.acquire(lost=True).assignments
        assert worker.acquire().assignments == ()
        worker.report()
        env.clock.advance(env.settings.redeliver_seconds)
        assert worker.acquire().assignments == (lost,)
        worker.report()
        env.clock.advance(env.settings.redeliver_seconds)
        assert worker.acquire().assignments == ()


def test_11_timeout_and_cancel_on_one_tick_are_one_end() -> None:
    with Env() as env:
        worker, job = running(env, timeout_seconds=5.0)
        env.plane.cancel(job).result(0)
        worker.finish(job, code=143, outcome="timed_out")
        assert env.state(job) == "cancelled"
        env.advance(200)
        assert env.story(job).count("finished") == 1


def test_33_a_gpu_is_free_only_when_its_processes_are_gone() -> None:
    with Env() as env:
        worker = env.worker(gpus=1)
        first = env.submit(gpus=1, retries=1)
        env.run_pass()
        worker.acquire()
        worker.start(first)
        env.advance(31)
        second = env.submit(gpus=1, priority=5)
        worker.held["t1"] = Held("t1", 1, "running")
        reply = env.plane.report(
            Report("w1", worker.incarnation, worker.seq + 1, tuple(worker.held.values()))
        ).result(0)
        worker.seq += 1
        assert reply.kill == ("t1",)
        assert env.run_pass() == 0, "the stale process still has the GPU"
        worker.held.clear()
        worker.report()
        env.run_pass()
        assert env.state(second) == "scheduled"


def test_38_log_bytes_that_come_after_the_finish_complete_the_log() -> None:
    with Env() as env:
        worker, job = running(env)
        held = worker.task(job)
        assert env.plane.append_log(held.task_id, held.fence, 0, b"abc").result(0) == 3
        news = TaskReport(held.task_id, held.fence, "exited", 1.0, Exit("succeeded", "exited"), 6)
        worker.held[held.task_id] = Held(held.task_id, held.fence, "exited")
        env.plane.report(
            Report("w1", worker.incarnation, worker.seq + 1, tuple(worker.held.values()), (news,))
        ).result(0)
        assert env.state(job) == "succeeded"
        assert not env.plane.log(job).eof
        assert env.plane.append_log(held.task_id, held.fence, 2, b"cdef").result(0) == 6
        part = env.plane.log(job)
        assert (part.data, part.eof) == (b"abcdef", True)
        assert env.plane.job(job)["log_complete"]


def test_39_a_log_that_never_comes_does_not_stop_the_job() -> None:
    with Env() as env:
        worker, job = running(env)
        held = worker.task(job)
        end = Exit("succeeded", "exited", exit_code=0)
        worker.report(TaskReport(held.task_id, held.fence, "exited", 1.0, end, 500))
        assert env.state(job) == "succeeded"
        assert not env.tasks(job)[-1].log_complete
        worker.report()
        assert env.plane.log(job).eof, "the worker has forgotten it, so nothing will follow"


def test_40_the_same_key_is_the_same_job_or_a_conflict() -> None:
    with Env() as env:
        job = env.submit("true", key="k")
        assert env.submit("true", key="k") == job
        with pytest.raises(Exception, match="belongs to job") as raised:
            env.submit("false", key="k")
        assert raised.value.code == "idempotency-conflict"  # type: ignore[attr-defined]
        assert len(env.plane.jobs()) == 1


def test_45_on_a_full_disk_nothing_is_acknowledged_and_it_recovers() -> None:
    full = False

    def fault(point: str) -> None:
        if full and point == "commit":
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

    with Env() as env:
        env.store.close()
        env.store = Store(inline=True, fault=fault)
        env.restart_plane()
        worker = env.worker()
        job = env.submit()
        env.run_pass()
        worker.acquire()
        worker.start(job)
        full = True
        with pytest.raises(StorageError):
            env.submit()
        held = worker.task(job)
        news = worker.ending(held)
        worker.seq += 1
        report = Report("w1", worker.incarnation, worker.seq, (), (news,))
        with pytest.raises(StorageError):
            worker.say(report)
        assert env.state(job) == "running"
        full = False
        assert worker.say(report).recorded == (held.task_id,)
        assert env.state(job) == "succeeded"
        assert len(env.plane.jobs(ended=True)) == 1


def test_46_a_job_that_kills_its_worker_each_time_stops_at_the_crash_limit() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(retries=20)
        innocent = 0
        for _ in range(5):
            env.advance(300, step=300)
            worker.register()
            env.run_pass()
            worker.acquire()
            worker.start(job)
            worker.register(restarted=True, keeps=False)
            innocent += env.state(job) == "queued"
        assert innocent == 4
        assert env.job(job).reason == "crash_limit"
