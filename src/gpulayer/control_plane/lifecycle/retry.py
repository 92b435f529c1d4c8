"""Whether a job gets another attempt, and when. Pure; the jitter comes in as a number.

A loss before the workload began uses no attempt: nothing of it ran. A loss counts towards the
crash limit, so that a job that ends each worker it meets stops by itself; not so where the
machine's owner took the machine back. A task that was handed back (`retracted`) counts as neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer.contracts.records import Job, Task
from gpulayer.contracts.states import Reason, TaskState

CRASH_LIMIT = 5
"""Attempts whose worker vanished, after which a job is given out no more."""
BACKOFF_SECONDS = 1.0
BACKOFF_CAP_SECONDS = 300.0

_VANISHED = frozenset(
    {Reason.WORKER_LOST, Reason.SUPERVISOR_LOST, Reason.PREEMPTED, Reason.RETRACTED}
)
"""Losses that another machine may not meet. An envelope that is gone is gone everywhere."""
_PLANNED = frozenset({Reason.PREEMPTED, Reason.RETRACTED})
"""Losses of which the job is not suspected."""
_NEVER_RAN = _VANISHED - {Reason.SUPERVISOR_LOST}
"""Losses that use no attempt where nothing had begun. A supervisor that dies may have begun the
job and not told anybody, and a job must not run twice unasked."""


@dataclass(frozen=True, slots=True)
class Again:
    """Give it out once more, `delay` seconds from now."""

    delay: float
    attempt: int
    """Attempts that count as used from now on."""
    lost: int


@dataclass(frozen=True, slots=True)
class Over:
    """No further attempt; `reason` is the job's."""

    reason: Reason
    lost: int
    message: str = ""


def decide(
    job: Job,
    task: Task,
    outcome: TaskState,
    reason: Reason,
    exit_code: int | None,
    *,
    began: bool,
    jitter: float,
) -> Again | Over:
    """What follows an attempt that neither succeeded nor was cancelled. `jitter` is in [0, 1)."""
    lost = job.lost
    if outcome is TaskState.LOST and reason not in _PLANNED:
        lost += 1
    unused = outcome is TaskState.LOST and not began and reason in _NEVER_RAN
    wanted = job.attempt < job.max_attempts and _matches(job, outcome, reason, exit_code)
    if not unused and not wanted:
        return Over(reason, lost)
    if lost >= CRASH_LIMIT:
        return Over(
            Reason.CRASH_LIMIT, lost, f"{lost} attempts were lost; the last on {task.worker_id}"
        )
    if unused:
        delay = 0.0 if reason in _PLANNED else backoff(lost - 1, jitter)
        return Again(delay, job.attempt - 1, lost)
    return Again(backoff(job.attempt, jitter), job.attempt, lost)


def never_ran(reason: Reason) -> bool:
    """Whether a loss for that reason, before anything had begun, uses no attempt."""
    return reason in _NEVER_RAN


def may_go_again(job: Job) -> bool:
    """Whether a loss of its running task would give the job out again."""
    return job.attempt < job.max_attempts and "worker_lost" in job.retry_on


def backoff(step: int, jitter: float) -> float:
    """Full jitter over 1 s, 2 s, 4 s ... 300 s; nothing for step 0 and below."""
    if step <= 0:
        return 0.0
    return jitter * min(BACKOFF_CAP_SECONDS, BACKOFF_SECONDS * 2.0 ** min(step - 1, 30))


def _matches(job: Job, outcome: TaskState, reason: Reason, exit_code: int | None) -> bool:
    names = {str(outcome)}
    if reason is Reason.PREEMPTED:
        names = {"preempted"}
    elif outcome is TaskState.LOST:
        names = {"worker_lost"} if reason in _VANISHED else set()
    elif outcome is TaskState.FAILED and exit_code is not None:
        names.add(f"exit:{exit_code}")
    return not names.isdisjoint(job.retry_on)
