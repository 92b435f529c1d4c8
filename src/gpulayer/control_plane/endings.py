"""Ending a task inside a transaction: load what the rule needs, apply it, say whom to wake.
Its return after a silence goes the same way.

The one road to the end of a task, for the worker's own reports, for what reconciliation finds,
and for what a new incarnation no longer has.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpulayer.clock import Ids
from gpulayer.contracts.ids import TaskId
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.records import Task
from gpulayer.contracts.states import LIVE_TASK_STATES
from gpulayer.control_plane.lifecycle import tasks as rules
from gpulayer.control_plane.ports import Tx, commit
from gpulayer.control_plane.wakeups import ANY_JOB, job_topic, worker_topic


def end_task(
    tx: Tx,
    ids: Ids,
    task: Task,
    end: Exit,
    now: float,
    *,
    log_size: int = 0,
    log_complete: bool = False,
) -> set[str]:
    """Topics to publish after the commit."""
    job = tx.job(task.job_id)
    if job is None:  # live tasks keep their job in the store
        return set()
    siblings = [other for other in tx.live_tasks(job_id=job.id) if other.id != task.id]
    changes = rules.ended(
        job,
        task,
        siblings,
        end,
        now,
        ids.uniform(),
        log_size=log_size,
        log_complete=log_complete,
    )
    commit(tx, changes)
    workers = {worker_topic(sibling.worker_id) for sibling in siblings}
    return workers | {job_topic(job.id), ANY_JOB}


def reconnect(tx: Tx, task: Task, now: float) -> set[str]:
    """Take the mark off a task whose worker has spoken again. Topics to publish."""
    job = tx.job(task.job_id)
    if job is None:
        return set()
    commit(tx, rules.reconnected(job, task, now))
    return {job_topic(job.id)}


def end_tasks(tx: Tx, ids: Ids, endings: Iterable[tuple[TaskId, Exit]], now: float) -> set[str]:
    """Several; one that has ended meanwhile, as a sibling of an earlier one, is left as it is."""
    topics: set[str] = set()
    for task_id, end in endings:
        task = tx.task(task_id)
        if task is not None and task.state in LIVE_TASK_STATES:
            topics |= end_task(tx, ids, task, end, now)
    return topics
