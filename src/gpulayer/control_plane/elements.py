"""Arrays inside a transaction: the rows that their rules need, loaded and handed to them. Of a job
that is no array nothing more is read, and the plain rule is asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gpulayer.contracts import elements
from gpulayer.contracts.changes import NOTHING, Changes
from gpulayer.contracts.decision import Decision, Pending
from gpulayer.contracts.elements import CHUNK
from gpulayer.contracts.ids import Fence, WorkerId
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.records import Chunk, Job, Progress, Task
from gpulayer.contracts.states import Reason
from gpulayer.control_plane.lifecycle import arrays, element_ends, handing_out, jobs as rules
from gpulayer.control_plane.ports import Reader, Tx, commit


def begun(tx: Tx, job: Job) -> tuple[Job, Changes]:
    """A new array as it is stored; of a retry, with what had not succeeded alone."""
    chunks: tuple[Chunk, ...] = ()
    old = tx.job(job.retry_of) if job.retry_of is not None else None
    if old is not None:
        grid = elements.grid_of(job.spec)
        count, chunks = handing_out.again(tx.chunks(old.id), grid, job.id)
        job = dataclasses.replace(job, elements=count)
    return job, Changes(progress=(handing_out.begun(job),), chunks=chunks)


def offered(
    tx: Reader, queue: Sequence[Pending], most: int, now: float
) -> tuple[tuple[Pending, ...], bool]:
    """The queue, with each array in it as many times as elements of it may be given out, and
    whether there is any array."""
    found = [pending for pending in queue if not pending.is_array]
    there = tx.open_arrays()
    for pending, progress in there:
        found += [pending] * _ready(tx, progress, most, now)
    return tuple(found), bool(there)


def placed(
    tx: Tx,
    job: Job,
    decision: Decision,
    fences: Sequence[Fence],
    incarnations: Mapping[WorkerId, int],
    now: float,
    slots: Callable[[float], int],
) -> Changes:
    """Nothing: another pass gave the last element out, or it may not be sent ahead. `slots`: how
    many tasks of so many cores all workers run at one time; 0: the chosen one takes no runs."""
    if job.elements is None:
        return rules.placed(job, decision, fences, incarnations, now)
    progress, where = progress_of(tx, job), decision.placements[0]
    if where.ahead and progress.max_failures is not None:
        return NOTHING  # it would begin without a word after the failure that is one too many
    room = 1 if progress.pace is None else slots(where.cpu_cores)
    most = handing_out.most_together(job, progress, room) if room else 1
    returned = tx.due_chunk(job.id, now) if progress.returned else None
    rows = partial(tx.chunk, job.id)
    place = handing_out.next_place(job, progress, returned, rows, now, most)
    if place is None or not handing_out.ready(progress, _tasks(tx, progress), 1):
        return NOTHING
    return handing_out.placed(job, progress, place, decision, fences, incarnations, now)


def unschedulable(tx: Tx, job: Job, decision: Decision, now: float) -> Changes:
    """The job asked to fail rather than wait for a worker that does not exist."""
    slug = rules.kind_of_want(decision)
    return _failed(tx, job, Reason.UNSCHEDULABLE, decision.summary, slug, now)


def refused(tx: Tx, job: Job, message: str, now: float) -> Changes:
    """A job that it was to come after ended otherwise."""
    return _failed(tx, job, Reason.DEPENDENCY, message, "dependency-failed", now)


def _failed(tx: Tx, job: Job, reason: Reason, message: str, slug: str, now: float) -> Changes:
    if job.elements is None:
        return rules.failed(job, reason, message, slug, now)
    return arrays.failed(job, progress_of(tx, job), reason, message, slug, now)


def cancelled(
    tx: Tx, job: Job, mode: str, grace_seconds: float, reason: Reason, now: float
) -> Changes:
    if job.elements is None:
        return rules.cancelled(job, mode, grace_seconds, reason, now)
    return arrays.cancelled(job, progress_of(tx, job), mode, grace_seconds, reason, now)


def ended(
    tx: Tx,
    job: Job,
    task: Task,
    end: Exit,
    now: float,
    jitter: float,
    *,
    log_size: int,
    log_complete: bool,
) -> Changes:
    return arrays.ended(
        job,
        progress_of(tx, job),
        _chunk_of(tx, job, task),
        task,
        end,
        now,
        jitter,
        log_size=log_size,
        log_complete=log_complete,
    )


def done(tx: Tx, job: Job, task: Task, rows: Sequence[Mapping[str, Any]], now: float) -> Changes:
    """Elements of a run that have succeeded while it goes on."""
    return element_ends.done_of(
        job, progress_of(tx, job), _chunk_of(tx, job, task), task, rows, now
    )


def shorten_delays(tx: Tx, after: float) -> None:
    """A wall clock that was set back must not keep an element waiting."""
    for pending, progress in tx.open_arrays():
        if progress.returned:
            late = [c for c in tx.chunks(pending.job_id) if c.due is not None and c.due > after]
            commit(tx, Changes(chunks=tuple(handing_out.undelayed(chunk, after) for chunk in late)))


def progress_of(reader: Reader, job: Job) -> Progress:
    found = reader.progress(job.id)
    if found is None:
        raise LookupError(f"array {job.id} has no counts")
    return found


def _chunk_of(tx: Reader, job: Job, task: Task) -> Chunk:
    position = elements.grid_of(job.spec).position(task.index)
    chunk = None if position is None else tx.chunk(job.id, position // CHUNK)
    if chunk is None:
        raise LookupError(f"element {task.index} of {job.id} was never given out")
    return chunk


def _ready(tx: Reader, progress: Progress, most: int, now: float) -> int:
    most = handing_out.ready(progress, _tasks(tx, progress), most)
    if not progress.returned or not most:
        return most
    there = progress.waiting - progress.returned
    if there < most:
        chunks: list[Chunk] = [c for c in tx.chunks(progress.job_id) if c.due is not None]
        there += sum(len(handing_out.due(chunk, now)) for chunk in chunks)
    return min(most, there)


def _tasks(tx: Reader, progress: Progress) -> int:
    """Those that live, where that matters."""
    return 0 if progress.max_parallel is None else tx.live_count(progress.job_id)
