"""Whether a checkpoint that a worker has stored becomes the newest of its job. Pure.

Only the attempt that lives has a say, so a worker that was cut off can never put back the work of
the one that followed. Of one attempt the younger cut counts, whichever word comes first.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from gpulayer.contracts.changes import Changes, NewEvent
from gpulayer.contracts.checkpoint_files import size_of
from gpulayer.contracts.durations import bytes_text
from gpulayer.contracts.messages import KeepCheckpoint
from gpulayer.contracts.records import Job, KeptCheckpoint, Task
from gpulayer.contracts.states import LIVE_TASK_STATES

TOLD_SECONDS = 300.0
"""Of those of one attempt, the story tells of the first, and then no more often than this."""


def is_over(task: Task | None, fence: int) -> bool:
    """Whether nothing of that attempt is taken any more."""
    return task is None or task.fence != fence or task.state not in LIVE_TASK_STATES


def kept(
    task: Task, newest: KeptCheckpoint | None, asked: KeepCheckpoint, now: float
) -> KeptCheckpoint | None:
    """The row to add; None: what is there is younger, or the same."""
    told_at = 0.0
    if newest is not None and newest.fence == task.fence:
        if asked.boot <= newest.boot:
            return None
        told_at = newest.told_at
    row = KeptCheckpoint(
        job_id=task.job_id,
        index=task.index,
        attempt=task.attempt,
        fence=task.fence,
        at=asked.at,
        boot=asked.boot,
        size=size_of(asked.files),
        files=asked.files,
        told_at=told_at,
    )
    return dataclasses.replace(row, told_at=now) if now - told_at >= TOLD_SECONDS else row


def told(job: Job, task: Task, row: KeptCheckpoint, note: str, now: float) -> Changes:
    """A line of the job's story, where it is due or there is something to say."""
    if row.told_at != now and not note:
        return Changes()
    count = len(row.files)
    message = f"{count} file{'s' * (count != 1)}, {bytes_text(row.size)}"
    data: dict[str, Any] = {
        "attempt": row.attempt, "at": row.at, "size": row.size, "files": count,
    }  # fmt: skip
    if note:
        message, data = f"{message}; {note}", data | {"note": note}
    event = NewEvent(job.id, "checkpoint", job.state, job.reason, now, message, task.id, data)
    return Changes(events=(event,))


def not_kept(job: Job, task: Task, note: str, now: float) -> Changes:
    """Why there is none, or no newer one."""
    data = {"attempt": task.attempt, "note": note}
    message = f"not kept: {note}"
    event = NewEvent(job.id, "checkpoint", job.state, job.reason, now, message, task.id, data)
    return Changes(events=(event,))
