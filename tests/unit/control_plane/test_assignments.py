"""Handing out work and orders, and taking logs."""

from __future__ import annotations

import pytest

from gpulayer.contracts.messages import Acquire, Exit, Register, Report, TaskReport
from gpulayer.errors import NotFoundError, RefusedError, UsageError
from tests.support.env import Env


def test_only_the_newest_acquire_is_served() -> None:
    with Env() as env:
        worker = env.worker()
        old = Acquire("w1", worker.incarnation, seq=1)
        assert env.plane.acquire_now(old).result(0).ok
        with env.plane.wakeups.subscribe("worker:w1") as parked:
            new = Acquire("w1", worker.incarnation, seq=2)
            assert env.plane.acquire_now(new).result(0).ok
            assert parked.wait(0), "the older call is woken"
        env.submit()
        env.run_pass()
        assert not env.plane.acquire_now(old).result(0).ok
        assert len(env.plane.acquire_now(new).result(0).assignments) == 1


def test_an_assignment_that_a_copy_of_the_call_took_is_handed_out_again() -> None:
    with Env() as env:
        worker = env.worker()
        env.submit()
        env.run_pass()
        worker.acquire(lost=True)
        with env.plane.wakeups.subscribe("worker:w1") as parked:
            worker.report()
            assert not parked.wait(0), "the answer may be on its way"
            env.clock.advance(5)
            worker.report()
            assert parked.wait(0)
        same = Acquire("w1", worker.incarnation, seq=worker.acquires)
        assert len(env.plane.acquire_now(same).result(0).assignments) == 1


def test_a_worker_that_drains_hands_back_what_it_has_not_begun() -> None:
    with Env() as env:
        worker = env.worker("w1", cores=2)
        running, waiting = env.submit(), env.submit()
        env.run_pass()
        acquired = worker.acquire(lost=True)
        worker.acquires += 1
        env.clock.advance(6)
        worker.acquire()
        worker.start(running)
        (assignment,) = [a for a in acquired.assignments if a.job_id == waiting]
        with env.plane.wakeups.subscribe("worker:w1") as parked:
            env.plane.drain("w1").result(0)
            assert parked.wait(0), "it hears of it at once"
        env.clock.advance(6)
        asked = worker.acquire()
        assert asked.assignments == ()
        assert [a.task_id for a in asked.retract] == [assignment.task_id]
        held = worker.task(waiting)
        worker.report(worker.ending(held, outcome="lost", reason="retracted", started_at=None))
        assert (env.state(running), env.state(waiting)) == ("running", "queued")
        assert (env.job(waiting).attempt, env.job(waiting).lost) == (0, 0)
        other = env.worker("w2")
        env.run_pass()
        assert len(other.acquire().assignments) == 1
        worker.finish(running)
        env.submit()
        env.run_pass()
        assert worker.acquire().assignments == (), "nothing is new to it"


def test_a_worker_that_resumes_is_given_work_again() -> None:
    with Env() as env:
        worker = env.worker()
        env.plane.drain("w1").result(0)
        env.submit()
        env.run_pass()
        assert not worker.acquire().is_news
        env.plane.drain("w1", draining=False).result(0)
        env.run_pass()
        assert len(worker.acquire().assignments) == 1


def test_registering_again_retires_the_acquires_before_it() -> None:
    with Env() as env:
        worker = env.worker()
        worker.acquire()
        parked = Acquire("w1", worker.incarnation, seq=worker.acquires)
        worker.register()
        env.submit()
        env.run_pass()
        assert not env.plane.acquire_now(parked).result(0).ok
        assert len(worker.acquire().assignments) == 1


def test_a_registration_that_comes_late_changes_nothing() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit()
        env.run_pass()
        worker.acquire()
        worker.start(job)
        late = Register("w1", "w1", worker.nonce, "local", worker.capabilities.to_json(), (), 1)
        env.plane.register(late).result(0)
        assert env.state(job) == "running"


def test_a_report_that_comes_late_changes_nothing() -> None:
    with Env() as env:
        worker = env.worker()
        early = Report("w1", worker.incarnation, worker.seq + 1, ())
        worker.seq += 1
        job = env.submit()
        env.run_pass()
        worker.acquire()
        worker.start(job)
        assert env.plane.report(early).result(0).kill == ()
        assert env.state(job) == "running"


def test_an_assignment_carries_all_that_a_start_needs() -> None:
    with Env() as env:
        worker = env.worker(gpus=2)
        env.submit("nvidia-smi", gpus=2, envelope_id="e", timeout_seconds=9.0, origin={"cwd": "/x"})
        env.run_pass()
        (given,) = worker.acquire().assignments
        assert given.gpus == ("GPU-w1-0", "GPU-w1-1")
        assert (given.envelope_id, given.timeout_seconds) == ("e", 9.0)
        assert given.origin == {"cwd": "/x"}


def test_a_plane_that_leaves_says_so_to_whoever_is_parked() -> None:
    with Env() as env:
        worker = env.worker()
        with env.plane.wakeups.subscribe("worker:w1") as parked:
            env.plane.leave()
            assert parked.wait(0)
        assert worker.acquire().leave


def test_log_bytes_go_where_they_belong_whatever_comes_twice() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit()
        env.run_pass()
        worker.acquire()
        held = worker.task(job)
        append = env.plane.append_log
        assert append(held.task_id, held.fence, 0, b"").result(0) == 0
        assert append(held.task_id, held.fence, 0, b"abc").result(0) == 3
        assert append(held.task_id, held.fence, 1, b"bcd").result(0) == 4
        assert append(held.task_id, held.fence, 9, b"zzz").result(0) == 4
        assert env.plane.log(job).data == b"abcd"
        with pytest.raises(NotFoundError):
            append(held.task_id, held.fence + 1, 0, b"x")


def test_the_log_of_a_task_is_limited() -> None:
    with Env(log_bytes=4) as env:
        worker = env.worker()
        job = env.submit()
        env.run_pass()
        worker.acquire()
        held = worker.task(job)
        assert env.plane.append_log(held.task_id, held.fence, 0, b"1234").result(0) == 4
        with pytest.raises(RefusedError):
            env.plane.append_log(held.task_id, held.fence, 4, b"5")


def test_attempts_read_as_one_log_that_only_grows_at_its_end() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(retries=1, retry_on=("failed",))
        env.run(worker, job, code=1, log=b"first\n")
        env.clock.advance(2)
        env.run_pass()
        worker.acquire()
        with pytest.raises(NotFoundError, match="closed"):
            env.plane.append_log("t1", 1, 6, b"too late\n")
        worker.finish(job, log=b"second\n")
        part = env.plane.log(job)
        assert (part.data, part.eof) == (b"first\nsecond\n", True)
        part = env.plane.log(job, "8", 3)
        assert (part.data, part.next, part.eof) == (b"con", "11", False)


@pytest.mark.parametrize("outcome", ["running", "assigned", "vanished"])
def test_a_task_cannot_end_in_a_state_that_is_no_end(outcome: str) -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit()
        env.run_pass()
        worker.acquire()
        held = worker.task(job)
        news = TaskReport(held.task_id, held.fence, exit=Exit(outcome, "exited"))
        with pytest.raises(UsageError):
            worker.report(news)
        worker.report()
        assert env.state(job) == "scheduled"


def test_a_task_of_another_worker_cannot_be_reported_on() -> None:
    with Env() as env:
        owner, thief = env.worker("w1"), env.worker("w2", cores=0.5)
        job = env.submit()
        env.run_pass()
        owner.acquire()
        news = owner.ending(owner.task(job))
        assert thief.report(news).recorded == (news.task_id,)
        assert env.state(job) == "scheduled"
