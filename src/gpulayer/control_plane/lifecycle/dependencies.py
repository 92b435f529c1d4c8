"""What the end of one job means for a job that comes after it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpulayer.contracts.changes import Changes, JobUpdate, NewEvent
from gpulayer.contracts.ids import JobId
from gpulayer.contracts.records import Job
from gpulayer.contracts.states import JobState, Reason

_NAMED = 3
"""Jobs that a message names."""
_ENDS = {
    JobState.FAILED: "has failed",
    JobState.CANCELLED: "was cancelled",
    JobState.TIMED_OUT: "timed out",
    None: "is gone",
}


def is_met(state: JobState | None, must_succeed: bool) -> bool:
    """Of a job that has ended; None: it is not there any more."""
    return state is JobState.SUCCEEDED or (state is not None and not must_succeed)


def waits_for(left: Sequence[JobId]) -> str:
    """`waits for prepare-7f3ak2mq`."""
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"waits for {', '.join(left[:_NAMED])}{more}"


def unmet(on_job: JobId, state: JobState | None) -> str:
    """`prepare-7f3ak2mq, which it was to come after, has failed`."""
    return f"{on_job}, which it was to come after, {_ENDS.get(state, 'has ended')}"


def went_on(job: Job, on_job: JobId, left: Sequence[JobId], now: float) -> Changes:
    """One job less to wait for. Behind the last one it is in the queue, as if it came now."""
    reason = Reason.DEPENDENCY if left else Reason.SUBMITTED
    values = {"reason": reason, "message": waits_for(left) if left else "", "not_before": now}
    kind, message = "went_on" if left else "released", f"{on_job} has ended"
    return Changes(
        job_updates=(JobUpdate(job.id, job.state, job.version, values),),
        events=(NewEvent(job.id, kind, job.state, reason, now, message),),
    )
