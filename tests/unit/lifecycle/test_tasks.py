"""What the end of a task means for its job."""

from __future__ import annotations

import pytest

from gpulayer.contracts.states import JobState, Reason, TaskState
from gpulayer.control_plane.lifecycle import tasks
from gpulayer.control_plane.lifecycle.moves import IllegalMoveError
from tests.unit.lifecycle.records import NOW, a_job, a_task, an_exit, job_after, task_after


def test_the_workloads_exec_moves_task_and_job() -> None:
    changes = tasks.started(a_job(), a_task(TaskState.ASSIGNED), NOW - 1, NOW)
    assert task_after(changes)["state"] is TaskState.RUNNING
    assert job_after(changes) == {
        "state": JobState.RUNNING,
        "reason": Reason.STARTED,
        "message": "",
        "started_at": NOW - 1,
    }


def test_a_running_task_cannot_start_again() -> None:
    with pytest.raises(IllegalMoveError):
        tasks.started(a_job(JobState.RUNNING), a_task(TaskState.RUNNING), NOW, NOW)


@pytest.mark.parametrize(
    ("outcome", "reason", "state", "slug"),
    [
        ("succeeded", "exited", JobState.SUCCEEDED, None),
        ("failed", "exited", JobState.FAILED, "job-failed"),
        ("failed", "killed", JobState.FAILED, "killed"),
        ("failed", "not_found", JobState.FAILED, "command-not-found"),
        ("failed", "folder_gone", JobState.FAILED, "folder-gone"),
        ("timed_out", "timeout", JobState.TIMED_OUT, "timeout"),
        ("cancelled", "user", JobState.CANCELLED, "cancelled"),
        ("lost", "supervisor_lost", JobState.FAILED, "worker-lost"),
        ("lost", "envelope_lost", JobState.FAILED, "envelope-lost"),
    ],
)
def test_every_outcome_ends_the_job_in_its_state(
    outcome: str, reason: str, state: JobState, slug: str | None
) -> None:
    job = a_job(JobState.RUNNING, started_at=NOW - 10)
    changes = tasks.ended(job, a_task(), an_exit(outcome, reason), NOW, 0.5)
    assert task_after(changes)["state"] == outcome
    assert job_after(changes)["state"] is state
    (result,) = changes.results
    assert (result.error or {}).get("slug") == slug


def test_a_start_told_with_its_end_is_in_the_story() -> None:
    end = an_exit(started_at=NOW - 3)
    changes = tasks.ended(a_job(), a_task(TaskState.ASSIGNED), end, NOW, 0.5)
    assert [event.kind for event in changes.events] == ["started", "finished"]
    assert job_after(changes)["started_at"] == NOW - 3


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "timed_out", "lost"])
def test_a_requested_cancel_goes_before_any_other_end(outcome: str) -> None:
    job = a_job(
        JobState.RUNNING, cancel_requested_at=NOW, cancel_reason=Reason.SHUTDOWN, max_attempts=9
    )
    reason = "worker_lost" if outcome == "lost" else "exited"
    end = an_exit(outcome, reason, value="1", error={"type": "E"}, outputs=({"path": "x"},))
    changes = tasks.ended(job, a_task(), end, NOW, 0.5)
    assert job_after(changes)["state"] is JobState.CANCELLED
    assert job_after(changes)["reason"] is Reason.SHUTDOWN
    assert changes.results[0].value is None
    assert changes.results[0].error == {"slug": "cancelled", "message": ""}
    assert not changes.outputs


def test_a_retry_goes_back_to_the_queue_with_its_delay() -> None:
    job = a_job(JobState.RUNNING, max_attempts=2, retry_on=("failed",), started_at=NOW - 9)
    changes = tasks.ended(job, a_task(), an_exit("failed", exit_code=3), NOW, 0.5)
    after = job_after(changes)
    assert after["state"] is JobState.QUEUED
    assert (after["not_before"], after["attempt"]) == (NOW + 0.5, 1)
    assert after["started_at"] is None
    assert after["message"] == "attempt 1 failed (exit code 3); next in 0.5 s"
    assert not changes.results


def test_what_a_newer_worker_says_is_understood() -> None:
    changes = tasks.ended(a_job(), a_task(), an_exit("failed", "struck_by_a_comet"), NOW, 0.5)
    assert job_after(changes)["reason"] is Reason.EXITED


def test_a_late_end_is_told_as_what_it_was() -> None:
    job = a_job(JobState.FAILED)
    task = a_task(TaskState.LOST, message="silent")
    end = an_exit()
    assert not tasks.is_recorded(task, end)
    event = tasks.late(job, task, end, NOW)
    assert (event.kind, event.state, event.data["outcome"]) == (
        "late_report",
        "failed",
        end.outcome,
    )
    still = tasks.late(job, task, None, NOW)
    assert (still.kind, still.state, still.data["outcome"]) == ("late_report", "failed", None)


def test_a_repeated_end_is_recognised() -> None:
    task = a_task(TaskState.FAILED, exit_code=3, message="m")
    assert tasks.is_recorded(task, an_exit("failed", exit_code=3, message="m"))
    assert not tasks.is_recorded(task, an_exit("failed", exit_code=4, message="m"))
    assert tasks.is_recorded(
        a_task(TaskState.CANCELLED, exit_code=0), an_exit("succeeded", exit_code=0)
    )
