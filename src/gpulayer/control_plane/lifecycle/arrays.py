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
from gpulayer.contracts.changes import NOTHING, Changes, NewEvent
from gpulayer.contracts.decision import Decision
from gpulayer.contracts.elements import CHUNK, RETURNED
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.records import Chunk, Job, Progress, Result, Task
from gpulayer.contracts.states import TERMINAL_JOB_STATES, JobState, Reason, TaskState
from gpulayer.control_plane.lifecycle import jobs as jobs_rules, tasks as rules
from gpulayer.control_plane.lifecycle.handing_out import with_letter
from gpulayer.control_plane.lifecycle.moves import move_job, note_on_job
from gpulayer.control_plane.lifecycle.retry import Again, decide

TOLD = 100
"""Failures that the story of an array tells one by one."""
STOP_GRACE_SECONDS = 10.0

_LETTERS = {
    TaskState.SUCCEEDED: elements.SUCCEEDED,
    TaskState.FAILED: elements.FAILED,
    TaskState.LOST: elements.FAILED,
    TaskState.TIMED_OUT: elements.TIMED_OUT,
    TaskState.CANCELLED: elements.CANCELLED,
}
_NAMES = {
    elements.SUCCEEDED: "succeeded",
    elements.FAILED: "failed",
    elements.TIMED_OUT: "timed_out",
    elements.CANCELLED: "cancelled",
}


def attempt_of(job: Job, task: Task, lost: int = 0) -> Job:
    """The job as one element has it."""
    return dataclasses.replace(job, attempt=task.attempt, lost=lost)


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
    """The end of one element, or its way back into the queue; and the job's, if it was the last."""
    outcome, reason = _judge(job, end)
    began = task.started_at if end.started_at is None else end.started_at
    changes = rules.task_ended(task, outcome, reason, end, now, log_size, log_complete)
    if began is not None and job.state is JobState.SCHEDULED:
        start = move_job(
            job, JobState.RUNNING, Reason.STARTED, now,
            kind="started", task_id=task.id, started_at=began,
        )  # fmt: skip
        changes, job = changes + start, _moved(job, state=JobState.RUNNING, started_at=began)
    at = (elements.grid_of(job.spec).position(task.index) or 0) % CHUNK
    _, lost, _ = chunk.again.get(str(at), (0, 0, 0.0))
    progress = dataclasses.replace(progress, live=progress.live - 1)
    if outcome not in (TaskState.SUCCEEDED, TaskState.CANCELLED):
        one = attempt_of(job, task, lost)
        has_begun = began is not None
        verdict = decide(one, task, outcome, reason, end.exit_code, began=has_begun, jitter=jitter)
        if isinstance(verdict, Again) and not _stops(job):
            return changes + _returned(job, progress, chunk, at, task, verdict, end, now)
        if isinstance(verdict, Again):
            outcome = TaskState.CANCELLED
        else:
            reason = verdict.reason
            end = dataclasses.replace(end, message=verdict.message or end.message)
    letter = _LETTERS[outcome]
    name = _NAMES[letter]
    progress = dataclasses.replace(progress, **{name: getattr(progress, name) + 1})
    changes += Changes(
        chunks=(with_letter(_without(chunk, at), at, letter),),
        results=(_result(job, task, outcome, reason, end, now),),
        outputs=() if outcome is TaskState.CANCELLED else rules.outputs(job, end, task.index),
    )
    if letter in elements.BAD:
        progress, told = _tell(job, progress, task, f"element {task.index}: {end.message}", now)
        changes += told
        most = progress.max_failures
        if most is not None and progress.failed + progress.timed_out > most and not _stops(job):
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


def unschedulable(job: Job, progress: Progress, decision: Decision, now: float) -> Changes:
    """It asked to fail rather than wait for a worker that does not exist."""
    return Changes(progress=(_without_waiting(progress),)) + jobs_rules.end_job(
        job,
        JobState.FAILED,
        Reason.UNSCHEDULABLE,
        now,
        message=decision.summary,
        slug=jobs_rules.kind_of_want(decision),
        index=elements.ARRAY_END,
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


def _judge(job: Job, end: Exit) -> tuple[TaskState, Reason]:
    """What ends by itself while others' failures end the array is told as what it was."""
    if job.cancel_reason is Reason.MAX_FAILURES and end.outcome != TaskState.CANCELLED:
        job = dataclasses.replace(job, cancel_requested_at=None)
    return rules.judge(job, end)


def _returned(
    job: Job,
    progress: Progress,
    chunk: Chunk,
    at: int,
    task: Task,
    verdict: Again,
    end: Exit,
    now: float,
) -> Changes:
    not_before = now + verdict.delay if verdict.delay else 0.0
    again = {**chunk.again, str(at): (verdict.attempt, verdict.lost, not_before)}
    progress = dataclasses.replace(
        progress, waiting=progress.waiting + 1, returned=progress.returned + 1
    )
    changes = Changes(chunks=(with_letter(dataclasses.replace(chunk, again=again), at, RETURNED),))
    if end.reason != Reason.RETRACTED:
        how = f"exit code {end.exit_code}" if end.exit_code is not None else end.reason
        message = f"element {task.index}, attempt {task.attempt}: {how}; it is given out again"
        progress, told = _tell(job, progress, task, message, now)
        changes += told
    return changes + Changes(progress=(progress,)) + _idle(job, progress, now)


def _idle(job: Job, progress: Progress, now: float) -> Changes:
    """One of which nothing ever began, and nothing lives, is queued again."""
    if job.state is not JobState.SCHEDULED or progress.live:
        return NOTHING
    return move_job(
        job, JobState.QUEUED, Reason.RETRY, now, kind="retrying", message="none of it has begun"
    )


def _result(
    job: Job, task: Task, outcome: TaskState, reason: Reason, end: Exit, now: float
) -> Result:
    state = rules.JOB_STATES[outcome]
    slug = rules.slug_of(state, reason)
    error = end.error if state is not JobState.CANCELLED else None
    if error is None and slug is not None:
        error = {"slug": slug, "message": end.message}
    return Result(
        job_id=job.id,
        index=task.index,
        attempt=task.attempt,
        state=state,
        exit_code=end.exit_code,
        value=end.value if state is JobState.SUCCEEDED else None,
        error=error,
        left=end.left,
        finished_at=now,
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


def _stops(job: Job) -> bool:
    return job.cancel_requested_at is not None


def _moved(job: Job, **values: Any) -> Job:
    return dataclasses.replace(job, version=job.version + 1, **values)


def _tell(
    job: Job, progress: Progress, task: Task, message: str, now: float
) -> tuple[Progress, Changes]:
    """In the job's story, while it is not too long."""
    if progress.told >= TOLD:
        return progress, NOTHING
    event = NewEvent(
        job.id, "element", job.state, job.reason, now, message, task.id, {"index": task.index}
    )
    return dataclasses.replace(progress, told=progress.told + 1), Changes(events=(event,))


def _without_waiting(progress: Progress) -> Progress:
    cancelled = progress.cancelled + progress.waiting
    return dataclasses.replace(progress, waiting=0, returned=0, cancelled=cancelled)


def _without(chunk: Chunk, at: int) -> Chunk:
    return dataclasses.replace(chunk, again={k: v for k, v in chunk.again.items() if k != str(at)})
