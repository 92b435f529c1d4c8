"""The races of one machine, 12 to 20: agents and planes that come back, and clocks that jump."""

from __future__ import annotations

import pytest

from gpulayer.contracts.messages import Acquire, Held, Report
from gpulayer.contracts.states import TaskState
from tests.support.env import Env
from tests.unit.control_plane.racing import running


def test_12_a_restarted_worker_loses_what_it_no_longer_has_at_once() -> None:
    with Env() as env:
        worker, job = running(env, retries=1)
        old = worker.incarnation
        worker.register(restarted=True, keeps=False)
        assert worker.incarnation == old + 1
        assert env.state(job) == "queued"
        dead = env.plane.report(Report("w1", old, 99)).result(0)
        assert dead.ok is False
        assert env.plane.acquire_now(Acquire("w1", old, seq=99)).result(0).ok is False


def test_12_a_restarted_agent_goes_on_with_what_it_still_has() -> None:
    with Env() as env:
        worker, job = running(env)
        worker.register(restarted=True)
        assert env.state(job) == "running"
        assert env.live_task(job).incarnation == worker.incarnation
        worker.finish(job)
        assert env.state(job) == "succeeded"


def test_14_a_worker_that_returns_after_its_loss_is_told_what_to_kill() -> None:
    with Env() as env:
        worker, job = running(env, retries=1)
        env.advance(31)
        assert env.state(job) == "queued"
        assert worker.report().kill == ("t1",)
        env.run_pass()
        assert env.live_task(job).id == "t2"


def test_14_so_is_one_that_registers() -> None:
    with Env() as env:
        worker, job = running(env, retries=1)
        env.advance(31)
        assert worker.register().kill == ("t1",)
        assert env.tasks(job)[0].state is TaskState.LOST


def test_14_what_it_still_runs_then_is_told_once_and_changes_nothing() -> None:
    with Env() as env:
        worker, job = running(env)
        env.advance(env.settings.lease_seconds + env.settings.disconnect_grace_seconds + 1)
        lost, result = env.job(job), env.result(job)
        assert (lost.state, lost.reason) == ("failed", "worker_lost")
        held = worker.task(job)
        for _ in range(2):
            worker.held[held.task_id] = held
            assert worker.register().kill == (held.task_id,)
            worker.held[held.task_id] = held
            assert worker.report().kill == (held.task_id,)
        assert env.story(job).count("late_report") == 1
        assert (env.job(job), env.result(job)) == (lost, result)


def test_14_an_end_that_it_comes_back_with_is_asked_for_and_told_once() -> None:
    with Env() as env:
        worker, job = running(env)
        held = worker.task(job)
        news = worker.ending(held, log=b"all of it")
        env.advance(env.settings.lease_seconds + env.settings.disconnect_grace_seconds + 1)
        lost, result = env.job(job), env.result(job)
        for _ in range(2):
            worker.held[held.task_id] = Held(held.task_id, held.fence, "exited")
            registered = worker.register()
            assert (registered.kill, registered.forget) == ((), ())
            assert worker.report(news).recorded == (held.task_id,)
        assert env.story(job).count("late_report") == 1
        assert (env.job(job), env.result(job)) == (lost, result)
        assert env.plane.log(job).data == b"", "the log of an end that does not count"


def test_14_of_another_workers_task_it_has_nothing_to_tell() -> None:
    with Env() as env:
        worker, job = running(env)
        held = worker.task(job)
        env.advance(env.settings.lease_seconds + env.settings.disconnect_grace_seconds + 1)
        liar = env.worker("liar")
        liar.held[held.task_id] = held
        assert liar.register().kill == (held.task_id,)
        liar.held[held.task_id] = held
        assert liar.report().kill == (held.task_id,)
        assert "late_report" not in env.story(job)


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_16_a_jump_of_the_wall_clock_ends_no_lease_and_no_wait(jump: float) -> None:
    with Env() as env:
        worker, job = running(env)
        failing = env.submit(retries=1, retry_on=("failed",))
        env.run(worker, failing, code=1)
        env.clock.jump(jump)
        env.advance(20)
        worker.report()
        env.advance(20)
        assert env.state(job) == "running"
        env.run_pass()
        assert env.state(failing) == "scheduled"


def test_18_a_new_plane_lets_nothing_expire_for_one_lease() -> None:
    with Env() as env:
        worker, job = running(env, retries=1)
        env.clock.advance(3600)
        env.restart_plane()
        env.advance(29)
        assert env.state(job) == "running"
        assert worker.report().ok is False
        worker.register()
        env.advance(29)
        assert env.state(job) == "running"
        env.advance(2)
        assert env.state(job) == "queued"


def test_19_a_finish_that_was_recorded_before_the_plane_died_is_simply_acknowledged() -> None:
    with Env() as env:
        worker, job = running(env)
        held = worker.task(job)
        env.plane.report(
            Report("w1", worker.incarnation, worker.seq + 1, (held,), (worker.ending(held),))
        ).result(0)
        env.restart_plane()
        assert worker.register().forget == (held.task_id,)
        assert env.story(job).count("finished") == 1


def test_20_a_fence_is_never_given_twice_by_any_plane() -> None:
    with Env() as env:
        worker = env.worker()
        for _ in range(3):
            job = env.submit()
            env.run(worker, job)
            env.restart_plane()
            worker.register()
        ids = [task.id for job in env.plane.jobs(ended=True) for task in env.tasks(job["id"])]
        assert len(set(ids)) == 3


def test_20_a_worker_that_holds_an_unknown_fence_moves_the_next_one_past_it() -> None:
    with Env() as env:
        worker = env.worker()
        worker.held["t70000"] = Held("t70000", 70_000, "running")
        assert worker.register().kill == ("t70000",)
        job = env.submit()
        env.run_pass()
        assert env.live_task(job).fence > 70_000
