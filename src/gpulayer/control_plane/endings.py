"""Starting and ending a task inside a transaction: load what the rule needs, apply it, say whom
to wake. Its return after a silence goes the same way.

The one road to the end of a task, for the worker's own reports, for what reconciliation finds,
and for what a new incarnation no longer has. What is told of a task after that end is noted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpulayer.clock import Ids
from gpulayer.contracts.changes import Changes, TaskUpdate
from gpulayer.contracts.ids import TaskId, WorkerId
from gpulayer.contracts.messages import Exit, Held, Preparation
from gpulayer.contracts.records import Task
from gpulayer.contracts.states import LIVE_TASK_STATES, Reason, TaskState
from gpulayer.control_plane import elements
from gpulayer.control_plane.lifecycle import gangs, tasks as rules
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
    world: str = "",
) -> set[str]:
    """Topics to publish after the commit."""
    job = tx.job(task.job_id)
    if job is None:  # live tasks keep their job in the store
        return set()
    how: dict[str, Any] = {"log_size": log_size, "log_complete": log_complete}
    topics = {job_topic(job.id), ANY_JOB}
    if job.elements is not None:
        changes = elements.ended(tx, job, task, end, now, ids.uniform(), **how)
        commit(tx, rules.in_world(changes, task, world))
        if any("cancel_mode" in update.values for update in changes.job_updates):
            topics |= {worker_topic(other.worker_id) for other in tx.live_tasks(job_id=job.id)}
    elif gangs.is_gang(job):
        others = gangs.peers(tx.tasks(job.id), task)
        changes = gangs.ended(job, task, others, end, now, ids.uniform(), **how)
        commit(tx, rules.in_world(changes, task, world))
        topics |= {worker_topic(other.worker_id) for other in others}
    else:
        changes = rules.ended(job, task, end, now, ids.uniform(), **how)
        commit(tx, rules.in_world(changes, task, world))
    return topics


def start_task(tx: Tx, task: Task, started_at: float, now: float, world: str = "") -> set[str]:
    """Topics to publish after the commit."""
    job = tx.job(task.job_id)
    if job is None:
        return set()
    if gangs.is_gang(job):
        others = gangs.peers(tx.tasks(job.id), task)
        changes = gangs.started(job, task, others, started_at, now)
    else:
        changes = rules.started(job, task, started_at, now)
    commit(tx, rules.in_world(changes, task, world))
    return {job_topic(job.id)}


def note_done(tx: Tx, task: Task, rows: Sequence[Mapping[str, Any]], now: float) -> set[str]:
    """Elements of a run have succeeded, and it goes on. Topics to publish."""
    job = tx.job(task.job_id)
    if job is None or job.elements is None or task.state is not TaskState.RUNNING:
        return set()  # all of it is told again with its end
    changes = elements.done(tx, job, task, rows, now)
    if not changes:
        return set()
    commit(tx, changes)
    return {job_topic(job.id)}


def prepare_task(tx: Tx, task: Task, preparation: Preparation, now: float) -> None:
    """Once per task: it is told again with its end."""
    job = tx.job(task.job_id)
    if job is not None and task.preparation is None:
        told = rules.prepared(job, task, preparation, now)
        if job.elements is not None:  # a line for each would drown the story
            told = Changes(task_updates=told.task_updates)
        commit(tx, told)


def publish(tx: Tx, task: Task, rendezvous: Mapping[str, Any]) -> set[str]:
    """Where the nodes of a gang meet, as the first one's worker says; once per attempt. Topics to
    publish: the other workers wait for it."""
    if task.rendezvous is not None:
        return set()
    update = TaskUpdate(task.id, task.state, {"rendezvous": rendezvous})
    commit(tx, Changes(task_updates=(update,)))
    return {worker_topic(other.worker_id) for other in gangs.peers(tx.tasks(task.job_id), task)}


def reconnect(tx: Tx, task: Task, now: float) -> set[str]:
    """Take the mark off a task whose worker has spoken again. Topics to publish."""
    job = tx.job(task.job_id)
    if job is None:
        return set()
    commit(tx, rules.reconnected(job, task, now))
    return {job_topic(job.id)}


def note_late(tx: Tx, task: Task, end: Exit | None, now: float) -> set[str]:
    """What came of a task that is over, or that it still runs (None): told, once, and nothing else
    changes. Topics to publish."""
    job = tx.job(task.job_id)
    if job is None or (end is not None and rules.is_recorded(task, end)):
        return set()
    if end is None and task.reason is Reason.RETRACTED:
        return set()  # it was taken back while its worker had it, so that is no news
    late = rules.late(job, task, end, now)
    told = (late.kind, late.task_id, late.data)
    if any((event.kind, event.task_id, event.data) == told for event in tx.events(job.id)):
        return set()
    commit(tx, Changes(events=(late,)))
    return {job_topic(job.id)}


def note_held(tx: Tx, worker_id: WorkerId, held: Held, now: float) -> set[str]:
    """The same of what a worker names in its inventory; of others' tasks it has nothing to say."""
    task = tx.task(TaskId(held.task_id))
    if task is None or (task.fence, task.worker_id) != (held.fence, worker_id):
        return set()
    return note_late(tx, task, None, now)


def end_tasks(tx: Tx, ids: Ids, endings: Iterable[tuple[TaskId, Exit]], now: float) -> set[str]:
    """Several; one that has ended meanwhile, with an earlier one of its gang, is left as it is."""
    topics: set[str] = set()
    for task_id, end in endings:
        task = tx.task(task_id)
        if task is not None and task.state in LIVE_TASK_STATES:
            topics |= end_task(tx, ids, task, end, now)
    return topics
