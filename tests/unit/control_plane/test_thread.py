"""The thinnest thread: a job is submitted, placed, acquired, run and recorded."""

from __future__ import annotations

from tests.support.env import Env


def test_a_job_goes_from_submission_to_its_result() -> None:
    with Env() as env:
        worker = env.worker()
        job = env.submit("echo", "hello")
        assert env.state(job) == "queued"
        assert env.run_pass() == 1
        assert env.state(job) == "scheduled"
        (assignment,) = worker.acquire().assignments
        assert assignment.spec["workload"]["command"] == ["echo", "hello"]
        worker.start(job)
        assert env.state(job) == "running"
        worker.finish(job, log=b"hello\n")
        seen = env.plane.job(job)
        assert seen["state"] == "succeeded"
        assert seen["result"] == {"state": "succeeded", "exit_code": 0}
        assert seen["log_complete"]
        assert env.plane.log(job).data == b"hello\n"
        assert env.plane.log(job).eof
        assert env.story(job) == ["submitted", "placed", "started", "finished"]
        assert worker.held == {}
