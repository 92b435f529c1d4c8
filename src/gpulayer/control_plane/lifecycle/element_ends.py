"""How the elements of one task end, whether it ran one of them or many in a row. Pure.

Of a run, what its worker names has ended as it says. Of what it does not name, the first was begun
if any was, and has the task's own end; all behind it goes back at no cost of an attempt. Where the
worker itself is gone nobody knows how far it came: all of it goes back, and each of them alone, so
that one that takes its machine with it is found out and takes nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpulayer.contracts import elements, runs
from gpulayer.contracts.changes import NOTHING, Changes, NewEvent
from gpulayer.contracts.elements import CHUNK, LIVE, RETURNED
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.records import Chunk, Job, Output, Progress, Result, Task
from gpulayer.contracts.states import Reason, TaskState
from gpulayer.control_plane.lifecycle import retry, tasks as rules
from gpulayer.control_plane.lifecycle.handing_out import with_letters
from gpulayer.control_plane.lifecycle.retry import Again, decide

TOLD = 100
"""Failures that the story of an array tells one by one."""

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
_HANDED_BACK = Exit(TaskState.LOST, Reason.RETRACTED, "handed back before it began")
_UNSEEN = "its worker did not say how it ended"


def attempt_of(job: Job, task: Task, lost: int = 0) -> Job:
    """The job as one element has it."""
    return dataclasses.replace(job, attempt=task.attempt, lost=lost)


def may_go_again(job: Job, task: Task) -> bool:
    """Whether the loss of its worker gives more of a run out again than it might have begun."""
    return task.last is not None or retry.may_go_again(attempt_of(job, task))


def is_asked_to_end(job: Job) -> bool:
    return job.cancel_requested_at is not None


def judge(job: Job, end: Exit) -> tuple[TaskState, Reason]:
    """What ends by itself while others' failures end the array is told as what it was."""
    if job.cancel_reason is Reason.MAX_FAILURES and end.outcome != TaskState.CANCELLED:
        job = dataclasses.replace(job, cancel_requested_at=None)
    return rules.judge(job, end)


def ends_of(
    job: Job,
    progress: Progress,
    chunk: Chunk,
    task: Task,
    end: Exit,
    now: float,
    jitter: float,
) -> tuple[Changes, Progress]:
    """What the end of a task does to its elements. The counts are the caller's to write."""
    tally = _Tally(job, progress, chunk, task, now)
    few = progress.max_failures is not None
    for at, one, began in _each(job, chunk, task, end, few_may_fail=few):
        tally.end(at, one, jitter, began=began)
    return tally.changes()


def done_of(
    job: Job,
    progress: Progress,
    chunk: Chunk,
    task: Task,
    rows: Sequence[Mapping[str, Any]],
    now: float,
) -> Changes:
    """Elements of a run that have succeeded while it goes on. Nothing else of it changes, and the
    last of it is left to its end: so whatever of it lives ends with the task. To be told of one
    again changes nothing."""
    grid, known = elements.grid_of(job.spec), runs.ends_in(rows)
    tally = _Tally(job, progress, chunk, task, now)
    first, last = grid.position(task.index) or 0, grid.position(task.last or task.index) or 0
    for position in range(first, last):
        end = known.get(grid.index(position))
        if end is None or judge(job, end)[0] is not TaskState.SUCCEEDED:
            continue
        if chunk.states[position % CHUNK] == LIVE:
            tally.end(position % CHUNK, end, 0.0, began=True)
    if not tally.results:
        return NOTHING
    changes, progress = tally.changes()
    return changes + Changes(progress=(progress,))


def _each(
    job: Job, chunk: Chunk, task: Task, end: Exit, *, few_may_fail: bool
) -> Iterator[tuple[int, Exit, bool]]:
    """(position in the chunk, its end, whether it had begun) of each element of the task."""
    grid = elements.grid_of(job.spec)
    first = grid.position(task.index) or 0
    began = (task.started_at if end.started_at is None else end.started_at) is not None
    if task.last is None:
        yield first % CHUNK, end, began
        return
    known = runs.ends_in(end.elements)
    vanished = end.outcome == TaskState.LOST and end.reason != Reason.SUPERVISOR_LOST
    refused = not began and not few_may_fail
    together = vanished or refused or judge(job, end)[0] is TaskState.CANCELLED
    rest = end
    if end.outcome == TaskState.SUCCEEDED:
        rest = _HANDED_BACK if known else Exit(TaskState.FAILED, Reason.EXITED, _UNSEEN)
    for position in range(first, (grid.position(task.last) or 0) + 1):
        at = position % CHUNK
        if chunk.states[at] != LIVE:
            continue
        named = known.get(grid.index(position))
        if named is not None:
            yield at, named, True
        else:
            yield at, rest, began and not vanished and rest is not _HANDED_BACK
            rest = rest if together else _HANDED_BACK


class _Tally:
    """Gathers the ends of one task's elements into one change of each row."""

    def __init__(self, job: Job, progress: Progress, chunk: Chunk, task: Task, now: float) -> None:
        self._job = job
        self._chunk = chunk
        self._task = task
        self._now = now
        self._grid = elements.grid_of(job.spec)
        self._progress = progress
        self._counts = dict.fromkeys(
            ("waiting", "returned", "live", "succeeded", "failed", "timed_out", "cancelled"), 0
        )
        self._letters = list(chunk.states)
        self._again: dict[str, tuple[int, int, float]] = dict(chunk.again)
        self.results: list[Result] = []
        self._outputs: list[Output] = []
        self._events: list[NewEvent] = []
        self._ran: list[float] = []

    def end(self, at: int, end: Exit, jitter: float, *, began: bool) -> None:
        job, task = self._job, self._task
        outcome, reason = judge(job, end)
        index = self._grid.index(self._chunk.chunk * CHUNK + at)
        self._counts["live"] -= 1
        if end.started_at is not None and end.ended_at is not None:
            self._ran.append(max(0.0, end.ended_at - end.started_at))
        if outcome not in (TaskState.SUCCEEDED, TaskState.CANCELLED):
            _, lost, _ = self._again.get(str(at), (0, 0, 0.0))
            one = attempt_of(job, task, lost)
            verdict = decide(one, task, outcome, reason, end.exit_code, began=began, jitter=jitter)
            if isinstance(verdict, Again) and not is_asked_to_end(job):
                self._give_back(at, index, verdict, end)
                return
            if isinstance(verdict, Again):
                outcome = TaskState.CANCELLED
            else:
                reason = verdict.reason
                end = dataclasses.replace(end, message=verdict.message or end.message)
        letter = self._letters[at] = _LETTERS[outcome]
        self._again.pop(str(at), None)
        self._counts[_NAMES[letter]] += 1
        self.results.append(self._result(index, outcome, reason, end))
        if end.outputs and outcome is not TaskState.CANCELLED:
            self._outputs += rules.outputs(job, end, index)
        if letter in elements.BAD:
            self._tell(index, f"element {index}: {end.message}")

    def changes(self) -> tuple[Changes, Progress]:
        counts: dict[str, Any] = {
            name: getattr(self._progress, name) + more for name, more in self._counts.items()
        }
        told, pace = self._progress.told + len(self._events), self._pace()
        progress = dataclasses.replace(self._progress, **counts, told=told, pace=pace)
        chunk = dataclasses.replace(self._chunk, again=self._again)
        changes = Changes(
            chunks=(with_letters(chunk, "".join(self._letters)),),
            results=tuple(self.results),
            outputs=tuple(self._outputs),
            events=tuple(self._events),
        )
        return changes, progress

    def _give_back(self, at: int, index: int, verdict: Again, end: Exit) -> None:
        not_before = self._now + verdict.delay if verdict.delay else 0.0
        self._again[str(at)] = (verdict.attempt, verdict.lost, not_before)
        self._letters[at] = RETURNED
        self._counts["waiting"] += 1
        self._counts["returned"] += 1
        if end.reason != Reason.RETRACTED:
            how = f"exit code {end.exit_code}" if end.exit_code is not None else end.reason
            attempt = self._task.attempt
            self._tell(index, f"element {index}, attempt {attempt}: {how}; it is given out again")

    def _result(self, index: int, outcome: TaskState, reason: Reason, end: Exit) -> Result:
        state = rules.JOB_STATES[outcome]
        slug = rules.slug_of(state, reason)
        error = end.error if outcome is not TaskState.CANCELLED else None
        if error is None and slug is not None:
            error = {"slug": slug, "message": end.message}
        return Result(
            job_id=self._job.id,
            index=index,
            attempt=self._task.attempt,
            state=state,
            exit_code=end.exit_code,
            value=end.value if outcome is TaskState.SUCCEEDED else None,
            error=error,
            left=end.left,
            finished_at=self._now,
        )

    def _tell(self, index: int, message: str) -> None:
        """In the job's story, while it is not too long."""
        if self._progress.told + len(self._events) < TOLD:
            job, at = self._job, {"index": index}
            event = (job.id, "element", job.state, job.reason, self._now, message, self._task.id)
            self._events.append(NewEvent(*event, at))

    def _pace(self) -> float | None:
        """An element that took longer counts at once. One that was shorter does where it is the
        middle of a run; alone, it may have been mostly its start."""
        if not self._ran:
            return self._progress.pace
        ran, known = sum(self._ran) / len(self._ran), self._progress.pace
        if known is None or ran > known or self._task.last is not None:
            return ran
        return (known + ran) / 2
