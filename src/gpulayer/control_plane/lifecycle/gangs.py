"""The nodes of a gang: one attempt of a distributed job, which begins and ends as one. Pure.

    placed --> all nodes run --> all succeeded           succeeded, with what rank 0 returned
      |              '--------> one ends otherwise       the others are asked to end; once all have,
      |                                                  the job ends as the first of them, by time,
      |                                                  or all of it is queued again (`resume`)
      '------> one is lost before all ran                the rest is taken back, and queued again

A job of one node is no gang: `tasks` has its rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpulayer.contracts.changes import Changes
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.records import Job, Task
from gpulayer.contracts.states import LIVE_TASK_STATES, JobState, Reason, TaskState
from gpulayer.control_plane.lifecycle import tasks as rules
from gpulayer.control_plane.lifecycle.moves import move_task, note_on_job
from gpulayer.control_plane.lifecycle.retry import Again, Over, decide, never_ran

STOP_GRACE_SECONDS = 10.0
"""Between asking the others to end and killing them."""

_UNASKED: Mapping[str, Any] = dict.fromkeys(("cancel_requested_at", "cancel_mode", "cancel_reason"))
"""What the failure of a node had asked of the others, for an attempt that follows."""


def nodes_of(job: Job) -> int:
    work: Mapping[str, Any] = job.spec.get("workload") or {}
    return int(work.get("num_workers") or 1) if work.get("kind") == "distributed" else 1


def is_gang(job: Job) -> bool:
    return nodes_of(job) > 1


def newest(tasks: Iterable[Task]) -> dict[int, Task]:
    """Node -> its task, of all that a job ever had: those of the newest attempt."""
    found: dict[int, Task] = {}
    for task in tasks:
        if task.rank not in found or task.fence > found[task.rank].fence:
            found[task.rank] = task
    return found


def peers(tasks: Iterable[Task], task: Task) -> list[Task]:
    """The other nodes of the attempt that `task` is of, in order."""
    return [other for rank, other in sorted(newest(tasks).items()) if rank != task.rank]


def started(job: Job, task: Task, others: Sequence[Task], started_at: float, now: float) -> Changes:
    """The job runs once all of its nodes do."""
    if any(other.state is TaskState.ASSIGNED for other in others):
        return move_task(
            task, TaskState.RUNNING, Reason.STARTED, now, started_at=started_at, phase="running"
        )
    return rules.started(job, task, started_at, now)


def ended(
    job: Job,
    task: Task,
    others: Sequence[Task],
    end: Exit,
    now: float,
    jitter: float,
    *,
    log_size: int = 0,
    log_complete: bool = False,
) -> Changes:
    """One node's end, and the job's if it was the last. `others`: those of this attempt."""
    outcome, reason = _judge(job, end)
    over = dataclasses.replace(
        task,
        state=outcome,
        reason=reason,
        message=end.message,
        exit_code=end.exit_code,
        started_at=task.started_at if end.started_at is None else end.started_at,
        finished_at=now,
        ending=_kept(end, now),
    )
    changes = move_task(
        task,
        outcome,
        reason,
        now,
        message=over.message,
        exit_code=over.exit_code,
        started_at=over.started_at,
        log_size=log_size,
        log_complete=log_complete,
        ending=over.ending,
    )
    live = [other for other in others if other.state in LIVE_TASK_STATES]
    if job.cancel_requested_at is None and _is_whole_again(job, outcome, reason):
        for other in live:
            changes += move_task(other, TaskState.LOST, Reason.RETRACTED, now)
        why = Reason.WORKER_LOST if reason is Reason.PORT_TAKEN else reason
        verdict = decide(job, task, TaskState.LOST, why, None, began=False, jitter=jitter)
        if isinstance(verdict, Again):
            return changes + rules.again(job, task, outcome, verdict, end, now)
        return changes + rules.over(job, task, outcome, verdict, end, over.started_at, now)
    if outcome is not TaskState.CANCELLED:
        changes += Changes(outputs=rules.outputs(job, _outputs(over, end)))
    if not live:
        return changes + _close(job, [over, *others], now, jitter)
    if outcome is TaskState.SUCCEEDED or job.cancel_requested_at is not None:
        return changes
    return changes + note_on_job(
        job,
        now,
        "stopping",
        message=f"{_said(over)}; the other nodes are asked to end",
        cancel_requested_at=now,
        cancel_mode="term",
        cancel_grace=STOP_GRACE_SECONDS,
        cancel_reason=Reason.PEER_FAILED,
    )


def _judge(job: Job, end: Exit) -> tuple[TaskState, Reason]:
    """One that was asked to end for another's sake may have failed by itself before: it is told
    as what it was, and its time decides."""
    if job.cancel_reason is not Reason.PEER_FAILED:
        return rules.judge(job, end)
    if end.outcome == TaskState.CANCELLED:
        return TaskState.CANCELLED, Reason.PEER_FAILED
    return rules.judge(dataclasses.replace(job, cancel_requested_at=None), end)


def _is_whole_again(job: Job, outcome: TaskState, reason: Reason) -> bool:
    """Whether no rank can have begun, so that all of it may be given out again: a node was lost
    before all ran, or their meeting place was taken."""
    if reason is Reason.PORT_TAKEN:
        work: Mapping[str, Any] = job.spec.get("workload") or {}
        return not (work.get("rendezvous") or {}).get("port")
    lost = outcome is TaskState.LOST and never_ran(reason)
    return lost and job.state is JobState.SCHEDULED


def _close(job: Job, nodes: Sequence[Task], now: float, jitter: float) -> Changes:
    """The job's end, from those of all its nodes; or its next attempt."""
    failed = [t for t in nodes if t.state not in (TaskState.SUCCEEDED, TaskState.CANCELLED)]
    is_wanted = job.cancel_requested_at is not None and job.cancel_reason is not Reason.PEER_FAILED
    if is_wanted or not failed:
        cancelled = [t for t in nodes if t.state is TaskState.CANCELLED]
        first = min(cancelled or nodes, key=lambda t: t.rank)
        return rules.over(
            job, first, first.state, Over(first.reason, job.lost), _exit(first), None, now
        )
    first = min(failed, key=lambda t: ((t.ending or {}).get("at", now), t.rank))
    end = _exit(first)
    code = end.exit_code
    verdict = decide(job, first, first.state, first.reason, code, began=True, jitter=jitter)
    if isinstance(verdict, Again):
        changes = rules.again(job, first, first.state, verdict, end, now, **_UNASKED)
        return changes + Changes(undone=(job.id,))
    verdict = Over(verdict.reason, verdict.lost, verdict.message or _said(first))
    began = min((t.started_at for t in nodes if t.started_at is not None), default=None)
    return rules.over(job, first, first.state, verdict, end, began, now)


def _said(task: Task) -> str:
    """Which node it was, where the end does not name a rank."""
    names_itself = (task.ending or {}).get("rank") is not None or task.reason is Reason.RENDEZVOUS
    return task.message if names_itself else f"node {task.rank}: {task.message}"


def _kept(end: Exit, now: float) -> dict[str, Any]:
    """A clock that is ahead of ours makes nobody later than now."""
    at = end.failed_at if end.failed_at is not None else end.ended_at
    return {
        "at": now if at is None else min(at, now),
        "rank": end.failed_rank,
        "value": end.value,
        "error": end.error,
    }


def _exit(task: Task) -> Exit:
    kept = task.ending or {}
    return Exit(
        task.state,
        task.reason,
        task.message,
        exit_code=task.exit_code,
        value=kept.get("value"),
        error=kept.get("error"),
    )


def _outputs(task: Task, end: Exit) -> Exit:
    """Files of another node than the first go below its number, so that none hides another."""
    if task.rank == 0:
        return end
    below = tuple({**o, "path": f"node{task.rank}/{o['path']}"} for o in end.outputs)
    return dataclasses.replace(end, outputs=below)
