"""Passes: who is placed, what is written down, and what is not."""

from __future__ import annotations

from gpulayer.contracts.capabilities import Interpreter, WorkerCapabilities
from tests.support.env import Env


def test_priority_goes_before_age_and_age_before_the_rest() -> None:
    with Env() as env:
        worker = env.worker(cores=1)
        jobs = [env.submit(), env.submit(priority=1), env.submit()]
        order = []
        for _ in jobs:
            env.run_pass()
            (assignment,) = worker.acquire().assignments
            order.append(assignment.job_id)
            worker.finish(assignment.job_id)
        assert order == [jobs[1], jobs[0], jobs[2]]


def test_a_job_that_nobody_could_run_fails_when_it_asked_to() -> None:
    with Env() as env:
        env.worker()
        failing = env.submit(gpus=1, placement={"on_unschedulable": "fail"})
        waiting = env.submit(gpus=1)
        env.run_pass()
        assert env.state(failing) == "failed"
        assert env.plane.job(failing)["result"]["error"]["slug"] == "no-gpu"
        assert env.plane.decision(failing)["outcome"] == "unschedulable"  # type: ignore[index]
        assert env.state(waiting) == "queued"
        assert env.plane.decision(waiting)["outcome"] == "waiting"  # type: ignore[index]


def test_nothing_fails_while_the_first_worker_may_be_on_its_way() -> None:
    with Env() as env:
        job = env.submit(gpus=1, placement={"on_unschedulable": "fail"})
        env.run_pass()
        assert env.state(job) == "queued"


def test_a_worker_that_still_looks_for_its_gpus_lets_jobs_wait() -> None:
    with Env() as env:
        worker = env.worker()
        unknown = WorkerCapabilities("w1", "linux", "x86_64", 4.0, 16.0, 100.0, gpus=None)
        worker.report(capabilities=unknown.to_json())
        job = env.submit(gpus=1, placement={"on_unschedulable": "fail"})
        env.run_pass()
        assert env.state(job) == "queued"
        worker.report(capabilities=worker.capabilities.to_json())
        env.run_pass()
        assert env.state(job) == "failed"


def test_a_silent_or_draining_worker_gets_nothing_new() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit()
        env.plane.drain("w1").result(0)
        assert env.run_pass() == 0
        env.plane.drain("w1", draining=False).result(0)
        env.clock.advance(31)
        assert env.run_pass() == 0
        worker.report()
        assert env.run_pass() == 1
        assert env.state(job) == "scheduled"


def test_a_drained_worker_stays_so_through_heartbeats_and_restarts() -> None:
    with Env() as env:
        worker = env.worker()
        env.plane.drain("w1").result(0)
        env.clock.advance(60)
        worker.report()
        worker.register(restarted=True)
        assert env.plane.workers()[0]["state"] == "draining"


def test_a_queue_that_waits_for_the_same_reason_writes_nothing() -> None:
    with Env() as env:
        env.worker(cores=1)
        for _ in range(3):
            env.submit()
        env.run_pass()
        env.run_pass()
        before = env.rows_written()
        for _ in range(5):
            env.run_pass()
        assert env.rows_written() == before


def test_a_long_queue_is_worked_off_in_passes_of_bounded_size() -> None:
    with Env(eager=True, pass_jobs=2) as env:
        jobs = [env.submit() for _ in range(7)]
        env.worker(cores=7)
        assert {env.state(job) for job in jobs} == {"scheduled"}


def test_plan_asks_the_same_scheduler_and_stores_nothing() -> None:
    with Env() as env:
        env.worker(gpus=2)
        before = env.rows_written()
        good = env.plane.plan(env.spec("python", "x.py", gpus=2), {"cwd": "/here"})
        bad = env.plane.plan(env.spec(gpus=4), {})
        assert good["outcome"] == "placed"
        assert good["what_runs"]["argv"] == ["python", "x.py"]
        assert bad["outcome"] == "waiting"
        assert any(check["name"] == "gpu_count" for check in bad["verdicts"][0]["checks"])
        assert env.rows_written() == before


def test_jobs_inside_of_jobs_borrow_cores_instead_of_waiting_for_each_other() -> None:
    with Env() as env:
        worker = env.worker(cores=1)
        outer = env.submit()
        env.run_pass()
        worker.acquire()
        worker.start(outer)
        middle = env.submit(origin={"parent_job": outer})
        assert env.run_pass() == 1
        worker.acquire()
        worker.start(middle)
        inner = env.submit(origin={"parent_job": middle})
        stranger = env.submit()
        assert env.run_pass() == 1
        assert env.state(inner) == "scheduled"
        assert env.state(stranger) == "queued"
        worker.acquire()
        for job in (inner, middle, outer):
            assert env.state(stranger) == "queued"
            worker.finish(job)
            env.run_pass()
        assert env.state(stranger) == "scheduled"


def test_what_a_job_has_submitted_shares_its_cores_and_no_more() -> None:
    with Env() as env:
        worker = env.worker(cores=2)
        outer = env.submit()
        env.run_pass()
        worker.acquire()
        for _ in range(4):
            env.submit(origin={"parent_job": outer})
        assert env.run_pass() == 2


def _with_pythons(*pythons: Interpreter) -> dict[str, object]:
    return WorkerCapabilities(
        "w1", "linux", "x86_64", 4.0, 16.0, 100.0, interpreters=pythons
    ).to_json()


def test_a_python_that_the_worker_does_not_know_is_looked_at_for_the_job_that_needs_it() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(
            origin={"interpreter": {"path": "/venv/bin/python", "version": "3.12.1"}},
            resources={"frameworks": {"torch": ">=2"}},
        )
        env.run_pass()
        assert env.state(job) == "queued"
        assert worker.acquire().probe == ("/venv/bin/python",)
        known = Interpreter("/venv/bin/python", "3.12.1", {"torch": "2.3.0"})
        worker.report(capabilities=_with_pythons(known))
        env.run_pass()
        assert env.state(job) == "scheduled"
        assert worker.acquire().probe == ()


def test_a_python_without_what_the_job_needs_is_looked_at_once() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit(
            origin={"interpreter": {"path": "/bin/false", "version": ""}},
            resources={"frameworks": {"torch": ""}},
        )
        env.run_pass()
        assert worker.acquire().probe == ("/bin/false",)
        worker.report(capabilities=_with_pythons(Interpreter("/bin/false", None, {})))
        env.run_pass()
        assert worker.acquire().probe == ()
        assert "has none" in env.plane.job(job)["decision_summary"]


def test_a_job_that_did_not_ask_is_told_that_it_sees_no_gpu() -> None:
    with Env() as env:
        env.worker(gpus=1)
        here = {"cwd": "/home/me"}
        assert env.plane.job(env.submit(origin=here))["note"].startswith("no GPU asked for: hidden")
        assert env.plane.job(env.submit(origin=here, gpus=1))["note"] == ""
        hidden = env.submit(origin={**here, "visible_gpus": []})
        assert env.plane.job(hidden)["note"] == ""
