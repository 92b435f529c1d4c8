"""What a task's news mean for its job. Pure.

    prepared           what its preparation took, told with its start or its end
    started            the workload's exec: task running, job running
    ended              any end, reported by the worker or found out by the plane
    late               news about a task that has already ended: told, never obeyed
    disconnected       its worker is silent and it may run on; `reconnected` when it speaks again

Where several causes are true at once: a success that is already recorded, then cancelled, then
timed out, then failed, then lost.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from gpulayer.contracts.changes import Changes, NewEvent, TaskUpdate
from gpulayer.contracts.durations import preparation_text
from gpulayer.contracts.messages import Exit, Preparation
from gpulayer.contracts.named import DIGEST
from gpulayer.contracts.records import Job, Output, Task
from gpulayer.contracts.states import JobState, Reason, TaskState
from gpulayer.control_plane.lifecycle.jobs import end_job
from gpulayer.control_plane.lifecycle.moves import move_job, move_task
from gpulayer.control_plane.lifecycle.retry import Again, Over, decide

JOB_STATES = {
    TaskState.SUCCEEDED: JobState.SUCCEEDED,
    TaskState.FAILED: JobState.FAILED,
    TaskState.CANCELLED: JobState.CANCELLED,
    TaskState.TIMED_OUT: JobState.TIMED_OUT,
    TaskState.LOST: JobState.FAILED,
}

_SLUGS = {
    Reason.KILLED: "killed",
    Reason.OUT_OF_MEMORY: "killed",
    Reason.NOT_FOUND: "command-not-found",
    Reason.NOT_EXECUTABLE: "not-executable",
    Reason.PREPARATION: "start-failed",
    Reason.SECRET_MISSING: "secret-missing",
    Reason.ENVELOPE_LOST: "envelope-lost",
    Reason.FOLDER_GONE: "folder-gone",
    Reason.RESULT_NOT_JSON: "result-not-json",
    Reason.WORKER_LOST: "worker-lost",
    Reason.SUPERVISOR_LOST: "worker-lost",
    Reason.PREEMPTED: "worker-lost",
    Reason.CRASH_LIMIT: "worker-lost",
    Reason.DISK_FULL: "disk-full",
    Reason.RENDEZVOUS: "not-joined",
    Reason.PORT_TAKEN: "port-taken",
}

_STEPS, _WORDS = 16, 200
"""Steps of a preparation that are kept, and characters of what is said of each."""

_REASONS = {reason.value: reason for reason in Reason}
"""A reason of a newer worker that is not among these is told as `exited`."""


def started(job: Job, task: Task, started_at: float, now: float) -> Changes:
    """Only an assigned task starts; a second word of it is the caller's to drop."""
    changes = move_task(
        task, TaskState.RUNNING, Reason.STARTED, now, started_at=started_at, phase="running"
    )
    if job.state is not JobState.SCHEDULED:
        return changes
    return changes + move_job(
        job,
        JobState.RUNNING,
        Reason.STARTED,
        now,
        kind="started",
        task_id=task.id,
        started_at=started_at,
    )


def prepared(job: Job, task: Task, preparation: Preparation, now: float) -> Changes:
    """What came before the start, kept apart from the run."""
    told = dataclasses.replace(preparation, steps=preparation.steps[:_STEPS]).to_json()
    for step in told["steps"]:
        step["name"], step["note"] = step["name"][:_WORDS], step["note"][:_WORDS]
    update = TaskUpdate(task.id, task.state, {"preparation": told})
    message = preparation_text(told)
    event = NewEvent(job.id, "prepared", job.state, job.reason, now, message, task.id, told)
    return Changes(task_updates=(update,), events=(event,))


def in_world(changes: Changes, task: Task, world: str) -> Changes:
    """With what the task runs in, where its worker has said a digest and it is news."""
    if not DIGEST.fullmatch(world) or task.world is not None:
        return changes
    updates = tuple(
        dataclasses.replace(update, values={**update.values, "world": world})
        if update.task_id == task.id
        else update
        for update in changes.task_updates
    )
    return dataclasses.replace(changes, task_updates=updates)


def ended(
    job: Job,
    task: Task,
    end: Exit,
    now: float,
    jitter: float,
    *,
    log_size: int = 0,
    log_complete: bool = False,
) -> Changes:
    """The task's end and what follows from it, at once: the next attempt, or the job's end. Those
    of a gang are `gangs.ended`."""
    outcome, reason = judge(job, end)
    began = task.started_at if end.started_at is None else end.started_at
    changes = task_ended(task, outcome, reason, end, now, log_size, log_complete)
    if task.started_at is None and began is not None:
        changes += _began(job, task, began)
    if outcome in (TaskState.SUCCEEDED, TaskState.CANCELLED):
        return changes + over(job, task, outcome, Over(reason, job.lost), end, began, now)
    verdict = decide(
        job, task, outcome, reason, end.exit_code, began=began is not None, jitter=jitter
    )
    if isinstance(verdict, Again):
        return changes + again(job, task, outcome, verdict, end, now)
    return changes + over(job, task, outcome, verdict, end, began, now)


def task_ended(
    task: Task,
    outcome: TaskState,
    reason: Reason,
    end: Exit,
    now: float,
    log_size: int,
    log_complete: bool,
) -> Changes:
    """The end of the task's row alone."""
    return move_task(
        task,
        outcome,
        reason,
        now,
        message=end.message,
        exit_code=end.exit_code,
        started_at=task.started_at if end.started_at is None else end.started_at,
        log_size=log_size,
        log_complete=log_complete,
    )


def is_recorded(task: Task, end: Exit) -> bool:
    """Whether an ended task ended by this very report, which has come again."""
    return task.state in (end.outcome, TaskState.CANCELLED) and (
        task.exit_code,
        task.message,
    ) == (end.exit_code, end.message)


def late(job: Job, task: Task, end: Exit | None, now: float) -> NewEvent:
    """News of an attempt that is over. The job keeps its state; the story tells what came: how it
    ended, or (None) that its worker still had it."""
    came = "was still there and is told to end" if end is None else f"reported {end.outcome}"
    return NewEvent(
        job.id,
        "late_report",
        job.state,
        task.reason if end is None else end.reason,
        now,
        f"task {task.id} {came}; it had already ended as {task.state}",
        task.id,
        {
            "outcome": None if end is None else end.outcome,
            "exit_code": None if end is None else end.exit_code,
        },
    )


def disconnected(job: Job, task: Task, now: float, grace_seconds: float) -> Changes:
    """Its worker is silent past the lease, and the job has no attempt left: it may run on."""
    event = NewEvent(
        job.id,
        "disconnected",
        job.state,
        job.reason,
        now,
        f"{task.worker_id} is silent; what it runs is given {grace_seconds:g} s to come back",
        task.id,
    )
    update = TaskUpdate(task.id, task.state, {"disconnected_since": now})
    return Changes(task_updates=(update,), events=(event,))


def reconnected(job: Job, task: Task, now: float) -> Changes:
    """Its worker has spoken again and still has it."""
    since = now if task.disconnected_since is None else task.disconnected_since
    event = NewEvent(
        job.id,
        "reconnected",
        job.state,
        job.reason,
        now,
        f"{task.worker_id} is back after {max(0.0, now - since):.0f} s",
        task.id,
    )
    update = TaskUpdate(task.id, task.state, {"disconnected_since": None})
    return Changes(task_updates=(update,), events=(event,))


def lost(reason: Reason, message: str, at: float | None = None) -> Exit:
    """The end that the plane writes for a task of which nobody will report. `at`: when its worker
    was last heard, where that is known."""
    return Exit(outcome=TaskState.LOST, reason=reason, message=message, failed_at=at)


def judge(job: Job, end: Exit) -> tuple[TaskState, Reason]:
    if job.cancel_requested_at is not None:
        return TaskState.CANCELLED, job.cancel_reason or Reason.USER
    return TaskState(end.outcome), _REASONS.get(end.reason, Reason.EXITED)


def _began(job: Job, task: Task, at: float) -> Changes:
    """A start that was never told apart from the end still belongs into the story."""
    event = NewEvent(job.id, "started", JobState.RUNNING, Reason.STARTED, at, "", task.id)
    return Changes(events=(event,)) if job.started_at is None else Changes()


def again(
    job: Job,
    task: Task,
    outcome: TaskState,
    verdict: Again,
    end: Exit,
    now: float,
    **values: Any,
) -> Changes:
    """`values`: further columns of the job."""
    how = f"exit code {end.exit_code}" if end.exit_code is not None else end.reason
    message = f"attempt {job.attempt} {outcome.replace('_', ' ')} ({how})"
    if verdict.delay:
        message += f"; next in {verdict.delay:.1f} s"
    return move_job(
        job,
        JobState.QUEUED,
        Reason.RETRACTED if end.reason == Reason.RETRACTED else Reason.RETRY,
        now,
        kind="retrying",
        message=message,
        task_id=task.id,
        data={
            "outcome": outcome,
            "reason": end.reason,
            "exit_code": end.exit_code,
            "delay_seconds": round(verdict.delay, 3),
            "attempts_used": verdict.attempt,
        },
        attempt=verdict.attempt,
        lost=verdict.lost,
        not_before=now + verdict.delay if verdict.delay else 0.0,
        started_at=None,
        **values,
    )


def over(
    job: Job,
    task: Task,
    outcome: TaskState,
    verdict: Over,
    end: Exit,
    began: float | None,
    now: float,
) -> Changes:
    after = JOB_STATES[outcome]
    changes = end_job(
        job,
        after,
        verdict.reason,
        now,
        message=verdict.message or end.message,
        slug=slug_of(after, verdict.reason),
        exit_code=end.exit_code,
        value=end.value,
        error=end.error if after is not JobState.CANCELLED else None,
        left=end.left,
        task=task,
        lost=verdict.lost,
        started_at=job.started_at if job.started_at is not None else began,
    )
    if after is JobState.CANCELLED:
        return changes
    return changes + Changes(outputs=outputs(job, end))


def slug_of(after: JobState, reason: Reason) -> str | None:
    match after:
        case JobState.SUCCEEDED:
            return None
        case JobState.CANCELLED:
            return "cancelled"
        case JobState.TIMED_OUT:
            return "timeout"
        case _:
            return _SLUGS.get(reason, "job-failed")


def outputs(job: Job, end: Exit, index: int = 0) -> tuple[Output, ...]:
    return tuple(
        Output(
            job_id=job.id,
            index=index,
            path=o["path"],
            digest=o["digest"],
            size=o["size"],
            executable=bool(o.get("executable", False)),
        )
        for o in end.outputs
    )
