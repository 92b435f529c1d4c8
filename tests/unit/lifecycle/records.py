"""Jobs and tasks with sensible defaults, for tests of the pure rules."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpulayer.contracts.changes import Changes
from gpulayer.contracts.ids import Fence, JobId, ShapeId, TaskId, WorkerId
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.records import Job, Task
from gpulayer.contracts.states import JobState, Reason, TaskState

NOW = 1_000.0


def a_job(state: JobState = JobState.SCHEDULED, **changes: Any) -> Job:
    job = Job(
        id=JobId("job-00000000"),
        seq=1,
        name="job",
        spec={"workload": {"kind": "command", "command": ["true"]}},
        shape_id=ShapeId("shape"),
        state=state,
        reason=Reason.PLACED,
        attempt=0 if state is JobState.QUEUED else 1,
        version=3,
    )
    return dataclasses.replace(job, **changes)


def a_task(state: TaskState = TaskState.RUNNING, fence: int = 7, **changes: Any) -> Task:
    task = Task(
        id=TaskId(f"t{fence}"),
        fence=Fence(fence),
        job_id=JobId("job-00000000"),
        index=0,
        attempt=1,
        rank=0,
        worker_id=WorkerId("w1"),
        incarnation=1,
        state=state,
        reason=Reason.PLACED,
        started_at=None if state is TaskState.ASSIGNED else NOW - 10,
    )
    return dataclasses.replace(task, **changes)


def an_exit(outcome: str = "succeeded", reason: str = "exited", **fields: Any) -> Exit:
    return Exit(outcome, reason, **{"exit_code": 0 if outcome == "succeeded" else 1} | fields)


def job_after(changes: Changes) -> dict[str, Any]:
    """What the changes write into the one job row that they touch."""
    (update,) = changes.job_updates
    return dict(update.values)


def task_after(changes: Changes, task_id: str = "t7") -> dict[str, Any]:
    (update,) = [u for u in changes.task_updates if u.task_id == task_id]
    return dict(update.values)
