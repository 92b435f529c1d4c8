"""The elements of an array: each ends once, and the job with the last. Pure.

    waiting --> live --> succeeded | failed | timed_out | cancelled
       ^          |
       '----------'  an attempt is left, or nothing of it had begun

`handing_out` is how they begin. The job is queued until the first element is given out, and running
from the first start on. To be cancelled costs the same whatever its size: no more is given out, and
it ends with what lives.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from gpulayer.contracts import elements
from gpulayer.contracts.changes import NOTHING, Changes
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.records import Chunk, Job, Progress, Task
from gpulayer.contracts.states import TERMINAL_JOB_STATES, JobState, Reason
from gpulayer.control_plane.lifecycle import jobs as jobs_rules, tasks as rules
from gpulayer.control_plane.lifecycle.element_ends import ends_of, is_asked_to_end, judge
from gpulayer.control_plane.lifecycle.moves import move_job, note_on_job

STOP_GRACE_SECONDS = 10.0


def ended(
    job: Job,
    progress: Progress,
    chunk: Chunk,
    task: Task,
    end: Exit,
    now: float,
    jitter: float,
    *,
    log_size: int = 0,
    log_complete: bool = False,
) -> Changes:
    """The end of a task, and with it of its elements or their way back into the queue; and the
    job's, if they were the last."""
    outcome, reason = judge(job, end)
    began = task.started_at if end.started_at is None else end.started_at
    changes = rules.task_ended(task, outcome, reason, end, now, log_size, log_complete)
    if began is not None and job.state is JobState.SCHEDULED:
        start = move_job(
            job, JobState.RUNNING, Reason.STARTED, now,
            kind="started", task_id=task.id, started_at=began,
        )  # fmt: skip
        changes, job = changes + start, _moved(job, state=JobState.RUNNING, started_at=began)
    told, progress = ends_of(job, progress, chunk, task, end, now, jitter)
    changes += told
    bad, most = progress.failed + progress.timed_out, progress.max_failures
    if most is not None and bad > most and not is_asked_to_end(job):
        stop, job, progress = _stop(job, progress, now)
        changes += stop
    if progress.live or progress.waiting:
        return changes + Changes(progress=(progress,)) + _idle(job, progress, now)
    return changes + close(job, progress, now)


def cancelled(
    job: Job, progress: Progress, mode: str, grace_seconds: float, reason: Reason, now: float
) -> Changes:
    """No more is given out; what lives is asked to end, as firmly as `mode` says."""
    if job.state in TERMINAL_JOB_STATES:
        return NOTHING
    progress = _without_waiting(progress)
    if not progress.live:
        asked: dict[str, Any] = {
            "cancel_requested_at": now,
            "cancel_mode": mode,
            "cancel_reason": job.cancel_reason or reason,
        }
        return close(dataclasses.replace(job, **asked), progress, now, **asked)
    changes = jobs_rules.cancelled(job, mode, grace_seconds, reason, now)
    return changes + Changes(progress=(progress,)) if changes else NOTHING


def failed(
    job: Job, progress: Progress, reason: Reason, message: str, slug: str, now: float
) -> Changes:
    """It ends before it began."""
    return Changes(progress=(_without_waiting(progress),)) + jobs_rules.end_job(
        job, JobState.FAILED, reason, now, message=message, slug=slug, index=elements.ARRAY_END
    )


def close(job: Job, progress: Progress, now: float, **values: Any) -> Changes:
    """The job's end, once nothing of it lives or waits."""
    bad = progress.failed + progress.timed_out
    after, reason, message = JobState.SUCCEEDED, Reason.EXITED, ""
    if job.cancel_requested_at is not None and job.cancel_reason is not Reason.MAX_FAILURES:
        after, reason = JobState.CANCELLED, job.cancel_reason or Reason.USER
        message = f"{progress.succeeded} of {job.elements} elements had succeeded"
    elif bad:
        after, reason = JobState.FAILED, job.cancel_reason or Reason.ELEMENTS_FAILED
        message = f"{bad} of {job.elements} elements failed"
        if reason is Reason.MAX_FAILURES:
            message += f"; no more than {progress.max_failures} may"
    return Changes(progress=(progress,)) + jobs_rules.end_job(
        job,
        after,
        reason,
        now,
        message=message,
        slug=rules.slug_of(after, reason),
        exit_code={JobState.SUCCEEDED: 0, JobState.FAILED: 1}.get(after),
        index=elements.ARRAY_END,
        **values,
    )


def _idle(job: Job, progress: Progress, now: float) -> Changes:
    """One of which nothing ever began, and nothing lives, is queued again."""
    if job.state is not JobState.SCHEDULED or progress.live:
        return NOTHING
    return move_job(
        job, JobState.QUEUED, Reason.RETRY, now, kind="retrying", message="none of it has begun"
    )


def _stop(job: Job, progress: Progress, now: float) -> tuple[Changes, Job, Progress]:
    asked: dict[str, Any] = {
        "cancel_requested_at": now,
        "cancel_mode": "term",
        "cancel_grace": STOP_GRACE_SECONDS,
        "cancel_reason": Reason.MAX_FAILURES,
    }
    bad = progress.failed + progress.timed_out
    message = f"{bad} elements have failed, no more than {progress.max_failures} may: none is begun"
    note = note_on_job(job, now, "stopping", message=message, **asked)
    return note, _moved(job, **asked), _without_waiting(progress)


def _moved(job: Job, **values: Any) -> Job:
    return dataclasses.replace(job, version=job.version + 1, **values)


def _without_waiting(progress: Progress) -> Progress:
    cancelled = progress.cancelled + progress.waiting
    return dataclasses.replace(progress, waiting=0, returned=0, cancelled=cancelled)
