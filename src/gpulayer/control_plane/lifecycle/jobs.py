"""What happens to a job before and beside its tasks: accepted, placed, refused, cancelled. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpulayer.contracts.changes import NOTHING, Changes, NewEvent, TaskUpdate
from gpulayer.contracts.decision import Decision, Fit
from gpulayer.contracts.durations import bytes_text
from gpulayer.contracts.ids import Fence, TaskId, WorkerId
from gpulayer.contracts.records import Event, Job, Result, Task
from gpulayer.contracts.states import TERMINAL_JOB_STATES, JobState, Reason, TaskState
from gpulayer.control_plane.lifecycle.moves import move_job, note_on_job

_FIRMNESS = {None: 0, "int": 1, "term": 2, "kill": 3}
_LOG_REMOVED = "log_removed"


def submitted(job: Job) -> Changes:
    """A new job and the first line of its story."""
    message = f"again, after {job.retry_of}" if job.retry_of else job.message
    event = NewEvent(job.id, "submitted", job.state, job.reason, job.submitted_at, message)
    return Changes(jobs=(job,), events=(event,))


def log_removed(job: Job, size: int, now: float) -> Changes:
    """The log of an ended job makes room for newer ones; its story says so before it goes."""
    message = f"its log of {bytes_text(size)} was removed, to make room for newer ones"
    event = NewEvent(job.id, _LOG_REMOVED, job.state, job.reason, now, message)
    return Changes(events=(event,))


def log_removal(story: Iterable[Event]) -> Event | None:
    """Where a job's story says that its log was removed."""
    return next((event for event in story if event.kind == _LOG_REMOVED), None)


def placed(
    job: Job,
    decision: Decision,
    fences: Sequence[Fence],
    incarnations: Mapping[WorkerId, int],
    now: float,
) -> Changes:
    """All tasks of the decision, each with its fence, and the job scheduled; one transaction."""
    attempt = job.attempt + 1
    return scheduled(
        job, tasks_of(job, decision, fences, incarnations, now, attempt), decision, now
    )


def tasks_of(
    job: Job,
    decision: Decision,
    fences: Sequence[Fence],
    incarnations: Mapping[WorkerId, int],
    now: float,
    attempt: int,
    index: int = 0,
    last: int | None = None,
) -> tuple[Task, ...]:
    """What the decision gives out. `last`: of a run of elements."""
    return tuple(
        Task(
            id=TaskId(f"t{fence}"),
            fence=fence,
            job_id=job.id,
            index=index,
            attempt=attempt,
            rank=placement.rank,
            worker_id=placement.worker_id,
            incarnation=incarnations[placement.worker_id],
            state=TaskState.ASSIGNED,
            reason=Reason.PLACED,
            cpu_cores=placement.cpu_cores,
            memory_gb=placement.memory_gb,
            gpus=placement.gpus,
            assigned_at=now,
            phase="ahead" if placement.ahead else "assigned",
            last=last,
        )
        for placement, fence in zip(decision.placements, fences, strict=True)
    )


def scheduled(job: Job, tasks: tuple[Task, ...], decision: Decision, now: float) -> Changes:
    """The job goes from the queue to its workers."""
    attempt = tasks[0].attempt
    where = [{"task": t.id, "worker": t.worker_id, "gpus": list(t.gpus)} for t in tasks]
    return Changes(tasks=tasks) + move_job(
        job,
        JobState.SCHEDULED,
        Reason.PLACED,
        now,
        kind="placed",
        message=decision.summary,
        task_id=tasks[0].id,
        data={"attempt": attempt, "tasks": where},
        attempt=attempt,
    )


def begun(task_id: TaskId) -> Changes:
    """There is room for a task that was sent ahead."""
    return _phase(task_id, "assigned")


def recalled(task_id: TaskId) -> Changes:
    """A task that was sent ahead is asked back."""
    return _phase(task_id, "recalled")


def _phase(task_id: TaskId, phase: str) -> Changes:
    return Changes(task_updates=(TaskUpdate(task_id, TaskState.ASSIGNED, {"phase": phase}),))


def failed(job: Job, reason: Reason, message: str, slug: str, now: float) -> Changes:
    """It ends before it began."""
    return end_job(job, JobState.FAILED, reason, now, message=message, slug=slug)


def cancelled(job: Job, mode: str, grace_seconds: float, reason: Reason, now: float) -> Changes:
    """At once while nothing runs; else a flag that goes to the worker until its task has ended.

    Asking again changes nothing, except that a firmer mode replaces a softer one.
    """
    if job.state in TERMINAL_JOB_STATES:
        return NOTHING
    if job.state in (JobState.QUEUED, JobState.PROVISIONING):
        return end_job(
            job,
            JobState.CANCELLED,
            reason,
            now,
            message="cancelled before it began",
            slug="cancelled",
            cancel_requested_at=now,
            cancel_mode=mode,
            cancel_reason=reason,
        )
    if _FIRMNESS[mode] <= _FIRMNESS[job.cancel_mode]:
        return NOTHING
    return note_on_job(
        job,
        now,
        "cancelling",
        message=f"asked to end ({mode})",
        cancel_requested_at=job.cancel_requested_at or now,
        cancel_mode=mode,
        cancel_grace=grace_seconds,
        cancel_reason=job.cancel_reason or reason,
    )


def end_job(
    job: Job,
    after: JobState,
    reason: Reason,
    now: float,
    *,
    message: str = "",
    slug: str | None = None,
    exit_code: int | None = None,
    value: str | None = None,
    error: Mapping[str, object] | None = None,
    left: Mapping[str, object] | None = None,
    task: Task | None = None,
    index: int = 0,
    **values: object,
) -> Changes:
    """The last move of a job, with its result. `slug` is our word for the end, where the worker
    sent no `error` of its own."""
    if error is None and slug is not None:
        error = {"slug": slug, "message": message}
    result = Result(
        job_id=job.id,
        index=index,
        attempt=job.attempt,
        state=after,
        exit_code=exit_code,
        value=value if after is JobState.SUCCEEDED else None,
        error=error,
        left=left,
        finished_at=now,
    )
    return Changes(results=(result,)) + move_job(
        job,
        after,
        reason,
        now,
        kind="finished",
        message=message,
        task_id=task.id if task else None,
        data={} if exit_code is None else {"exit_code": exit_code},
        exit_code=exit_code,
        **values,
    )


def kind_of_want(decision: Decision) -> str:
    """The slug that says what every worker lacks, where they all lack the same."""
    lacks = [
        {(c.name, c.have.startswith("none")) for c in verdict.checks if c.fit is Fit.NEVER}
        for verdict in decision.verdicts
    ]
    common = set.intersection(*lacks) if lacks else set()
    if ("gpu_count", True) in common:
        return "no-gpu"
    if {("python", True), ("python", False)} & common:
        return "python-mismatch"
    return "no-matching-worker"
