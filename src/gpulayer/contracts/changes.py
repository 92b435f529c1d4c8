"""What a rule wants written: plain values that `store.Tx.apply` writes in one transaction.

Every update names the state it expects to find. If one guard of a `Changes` no longer holds, none
of it is written and `apply` answers False: somebody was first, and the use case loads again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpulayer.contracts.ids import JobId, TaskId
from gpulayer.contracts.records import Chunk, Job, Output, Progress, Result, Task
from gpulayer.contracts.states import JobState, TaskState


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """Set `values` on a job whose state is `expect` and whose version is `version`."""

    job_id: JobId
    expect: JobState
    version: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """Set `values` on a task whose state is `expect`."""

    task_id: TaskId
    expect: TaskState
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event before the store has numbered it."""

    job_id: JobId
    kind: str
    state: str
    reason: str
    at: float
    message: str = ""
    task_id: TaskId | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows and events of one transaction. Concatenate with `+`."""

    jobs: tuple[Job, ...] = ()
    """New jobs; the store gives `seq`."""
    job_updates: tuple[JobUpdate, ...] = ()
    tasks: tuple[Task, ...] = ()
    """New tasks, already with their fences."""
    task_updates: tuple[TaskUpdate, ...] = ()
    events: tuple[NewEvent, ...] = ()
    results: tuple[Result, ...] = ()
    outputs: tuple[Output, ...] = ()
    progress: tuple[Progress, ...] = ()
    """Of arrays; each replaces the row that was read in this very transaction."""
    chunks: tuple[Chunk, ...] = ()
    """The same."""
    undone: tuple[JobId, ...] = ()
    """Jobs that begin anew: the outputs of what was before go, those of these changes as well."""

    def __add__(self, other: Changes) -> Changes:
        return Changes(
            self.jobs + other.jobs,
            self.job_updates + other.job_updates,
            self.tasks + other.tasks,
            self.task_updates + other.task_updates,
            self.events + other.events,
            self.results + other.results,
            self.outputs + other.outputs,
            self.progress + other.progress,
            self.chunks + other.chunks,
            self.undone + other.undone,
        )

    def __bool__(self) -> bool:
        return any(
            (
                self.jobs,
                self.job_updates,
                self.tasks,
                self.task_updates,
                self.events,
                self.results,
                self.outputs,
                self.progress,
                self.chunks,
                self.undone,
            )
        )


NOTHING = Changes()
