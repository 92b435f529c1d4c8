"""What time does."""

from __future__ import annotations

import dataclasses

import pytest

from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.messages import Register
from gpulayer.control_plane.settings import Settings
from tests.support.env import Env, EnvWorker


def _running(env: Env, **spec: object) -> tuple[EnvWorker, str]:
    worker = env.worker()
    job = env.submit(**spec)  # type: ignore[arg-type]
    env.run_pass()
    worker.acquire()
    worker.start(job)
    return worker, job


def test_a_heartbeat_keeps_the_lease() -> None:
    with Env() as env:
        worker, job = _running(env, retries=1)
        for _ in range(10):
            env.advance(20)
            worker.report()
        assert env.state(job) == "running"


def test_a_task_without_another_attempt_is_given_time_to_come_back() -> None:
    with Env() as env:
        worker, job = _running(env)
        env.advance(31)
        assert (env.state(job), env.live_task(job).phase) == ("running", "running")
        since = env.plane.job(job)["disconnected_since"]
        assert since == pytest.approx(env.clock.now(), abs=2)
        worker.report()
        assert env.plane.job(job)["disconnected_since"] is None
        assert env.story(job)[-2:] == ["disconnected", "reconnected"]
        worker.finish(job)
        assert env.state(job) == "succeeded"


@pytest.mark.parametrize("restarted", [False, True], ids=["same agent", "new agent"])
def test_it_is_back_as_soon_as_its_worker_registers(restarted: bool) -> None:
    with Env() as env:
        worker, job = _running(env)
        env.advance(31)
        worker.register(restarted=restarted)
        assert env.live_task(job).disconnected_since is None
        assert env.story(job)[-1] == "reconnected"


def test_what_time_does_in_the_same_moment_does_not_find_it_silent() -> None:
    """The look at the clock may be carried out behind the registration, before its answer."""
    with Env() as env:
        worker, job = _running(env)
        env.advance(31)
        sessions = env.plane._registry._sessions

        def silent() -> float:
            return sessions.silent_seconds(WorkerId("w1"), env.clock.monotonic())

        capabilities, held = worker.capabilities.to_json(), tuple(worker.held.values())
        word = Register("w1", "w1", worker.nonce, "local", capabilities, held, worker.seq + 1)
        sessions.hears_again(word, env.clock.monotonic())
        assert silent() == 0
        env.reconcile()
        assert env.story(job).count("disconnected") == 1
        env.clock.advance(1)
        sessions.hears_again(dataclasses.replace(word, seq=0), env.clock.monotonic())
        assert silent() == 1, "what comes late says nothing of now"


def test_but_not_for_ever() -> None:
    with Env() as env:
        _, job = _running(env)
        env.advance(631, step=10)
        assert env.state(job) == "failed"
        assert env.plane.job(job)["result"]["error"]["slug"] == "worker-lost"


def test_an_assigned_task_of_a_silent_worker_is_given_to_another() -> None:
    with Env() as env:
        env.worker()
        job = env.submit()
        env.run_pass()
        env.advance(31)
        assert env.state(job) == "queued"
        assert env.job(job).attempt == 0, "it never began"


def test_the_deadline_is_a_backstop_behind_the_workers_own() -> None:
    with Env() as env:
        worker, job = _running(env, timeout_seconds=5.0)
        for _ in range(7):
            env.advance(10)
            worker.report()
        assert env.state(job) == "running"
        env.advance(10)
        assert env.state(job) == "timed_out"
        assert worker.report().kill == ("t1",)


def test_a_cancel_that_no_worker_obeys_ends_the_job_at_last() -> None:
    with Env() as env:
        worker, job = _running(env)
        env.plane.cancel(job, grace_seconds=1.0).result(0)
        for _ in range(7):
            env.advance(10)
            worker.report()
        assert env.state(job) == "cancelled"
        worker.report()
        assert worker.held == {}


def test_a_retry_waits_for_its_delay() -> None:
    with Env(eager=True) as env:
        worker = env.worker()
        job = env.submit(retries=2, retry_on=("failed",))
        worker.acquire()
        worker.start(job)
        worker.finish(job, code=1)
        due = env.job(job).not_before
        now = env.clock.now()
        assert due > now
        assert env.state(job) == "queued"
        told = env.plane.job(job)
        assert told["message"] == f"attempt 1 failed (exit code 1); next in {due - now:.1f} s"
        assert told["decision_summary"] == env.plane.jobs()[0]["decision_summary"] == ""
        data = env.plane.events(job)[-1]["data"]
        assert data["delay_seconds"] == pytest.approx(due - now, abs=0.001)
        assert data["attempts_used"] == 1
        env.advance(1)
        assert env.state(job) == "scheduled"


def test_looking_twice_changes_nothing() -> None:
    with Env() as env:
        _, job = _running(env, retries=1)
        env.clock.advance(31)
        env.reconcile()
        story = env.story(job)
        env.reconcile()
        assert env.story(job) == story


def test_an_envelope_is_dropped_a_while_after_its_last_job() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(envelope_id="e1")
        other = env.submit(envelope_id="e2")
        assert worker.register().envelopes == ("e1", "e2")
        env.advance(6)
        env.run(worker, job)
        env.advance(6)
        assert worker.report().drop_envelopes == ()
        env.advance(12)
        assert worker.report().drop_envelopes == ("e1",)
        assert worker.register().envelopes == ("e2",)
        env.plane.cancel(other).result(0)


def test_an_envelope_in_use_again_is_kept() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(envelope_id="e1")
        env.advance(6)
        env.run(worker, job)
        env.advance(8)
        env.submit(envelope_id="e1")
        env.advance(30)
        assert worker.report().drop_envelopes == ()


def test_many_workers_report_more_rarely_and_never_past_half_a_lease() -> None:
    settings = Settings()
    assert [settings.report_every(n) for n in (1, 250, 500, 750, 10_000)] == [5, 5, 10, 15, 15]
    with Env(reports_per_second=0.1) as env:
        first = env.worker("w1")
        assert first.register().report_seconds == 10
        env.worker("w2")
        assert first.report().report_seconds == 15
