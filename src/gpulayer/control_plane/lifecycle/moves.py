"""The one place that moves a job or a task from state to state. Pure.

Each move is checked against `contracts.states`, written with the state and version that it
expects to find, and told as an event. A move that the law does not have raises
`IllegalMoveError`; the use case adds the job's last events, so that the message tells how it
came to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpulayer.contracts.changes import Changes, JobUpdate, NewEvent, TaskUpdate
from gpulayer.contracts.ids import JobId, TaskId
from gpulayer.contracts.records import Event, Job, Task
from gpulayer.contracts.states import (
    TERMINAL_JOB_STATES,
    TERMINAL_TASK_STATES,
    JobState,
    Reason,
    TaskState,
    may_move,
)
from gpulayer.errors import GPULayerError


class IllegalMoveError(GPULayerError):
    """A rule was asked for a move that no table has. Nothing was written."""

    def __init__(self, job_id: JobId, what: str, before: str, after: str) -> None:
        super().__init__(
            "internal", f"{what} cannot go from {before} to {after}", where=job_id, job_id=job_id
        )
        self.job = job_id

    def tell(self, story: Iterable[Event]) -> None:
        """Append how the job came to where it is."""
        told = "; ".join(f"{e.seq} {e.kind} ({e.state}, {e.reason})" for e in story)
        self.message = f"{self.message}; it went: {told}"
        self.args = (self.message,)


def move_job(
    job: Job,
    after: JobState,
    reason: Reason,
    now: float,
    *,
    kind: str,
    message: str = "",
    task_id: TaskId | None = None,
    data: Mapping[str, Any] | None = None,
    **values: Any,
) -> Changes:
    """Job row and event of one move. `values` are further columns. Terminal: sets the end."""
    if not may_move(job.state, after):
        raise IllegalMoveError(job.id, f"job {job.id}", job.state, after)
    values |= {"state": after, "reason": reason, "message": message}
    if after in TERMINAL_JOB_STATES:
        values["finished_at"] = now
    return Changes(
        job_updates=(JobUpdate(job.id, job.state, job.version, values),),
        events=(NewEvent(job.id, kind, after, reason, now, message, task_id, data or {}),),
    )


def note_on_job(job: Job, now: float, kind: str, *, message: str = "", **values: Any) -> Changes:
    """Columns of a job that stays where it is, and the event that says so."""
    return Changes(
        job_updates=(JobUpdate(job.id, job.state, job.version, values),),
        events=(NewEvent(job.id, kind, job.state, job.reason, now, message),),
    )


def move_task(task: Task, after: TaskState, reason: Reason, now: float, **values: Any) -> Changes:
    """Task row of one move. The event is the job's, which knows what follows from it."""
    if not may_move(task.state, after):
        raise IllegalMoveError(task.job_id, f"task {task.id}", task.state, after)
    values |= {"state": after, "reason": reason}
    if after in TERMINAL_TASK_STATES:
        values["finished_at"] = now
        values["phase"] = "ended"
    return Changes(task_updates=(TaskUpdate(task.id, task.state, values),))
