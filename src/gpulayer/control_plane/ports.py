"""What the control plane needs from outside, as narrow protocols, and the bundle of them.

Real ones are wired by `sdk.embedded` and by the plane's process; tests wire the real store in
memory, with a clock and ids of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gpulayer.clock import Clock, Ids
from gpulayer.contracts.changes import Changes
from gpulayer.contracts.decision import Decision, Pending, Shape, StoredDecision
from gpulayer.contracts.ids import Digest, EnvelopeId, Fence, JobId, ShapeId, TaskId, WorkerId
from gpulayer.contracts.messages import Assignment
from gpulayer.contracts.records import Event, Job, Output, Result, Task, Worker
from gpulayer.contracts.states import JobState
from gpulayer.control_plane.lifecycle.moves import IllegalMoveError
from gpulayer.control_plane.settings import Settings
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.errors import GPULayerError

T = TypeVar("T")
U = TypeVar("U")


class Reader(Protocol):
    """One instant of the store. `gpulayer.storage.tx.Reader` says what each query promises."""

    def job(self, job_id: JobId) -> Job | None: ...
    def job_by_key(self, idempotency_key: str) -> Job | None: ...
    def jobs(
        self,
        *,
        states: Iterable[JobState] | None = None,
        name: str | None = None,
        limit: int | None = None,
        after_seq: int | None = None,
    ) -> list[Job]: ...
    def find_jobs(self, selector: str, *, session: str | None = None) -> list[Job]: ...
    def ready_heads(self, now: float, per_shape: int) -> list[Pending]: ...
    def delayed(self, now: float = 0.0) -> list[Job]: ...
    def counts(self) -> dict[JobState, int]: ...
    def unfinished(self) -> int: ...
    def queued_count(self) -> int: ...
    def live_envelopes(self) -> frozenset[EnvelopeId]: ...
    def ended_before(self, at: float, limit: int | None = 1000) -> list[JobId]: ...
    def task(self, task_id: TaskId) -> Task | None: ...
    def tasks(self, job_id: JobId) -> list[Task]: ...
    def live_tasks(
        self, *, job_id: JobId | None = None, worker_id: WorkerId | None = None
    ) -> list[Task]: ...
    def cancelling(self, worker_id: WorkerId) -> list[tuple[TaskId, str, float]]: ...
    def worker(self, worker_id: WorkerId) -> Worker | None: ...
    def workers(self) -> list[Worker]: ...
    def events(self, job_id: JobId, after: int = 0, limit: int | None = None) -> list[Event]: ...
    def last_events(self, job_id: JobId, limit: int) -> list[Event]: ...
    def result(self, job_id: JobId, index: int = 0) -> Result | None: ...
    def outputs(self, job_id: JobId) -> list[Output]: ...
    def digests_in_use(self) -> frozenset[Digest]: ...
    def lenders(self) -> frozenset[JobId]: ...
    def last_end(self) -> int: ...
    def ended_of_session(self, session: str, after: int, limit: int) -> list[tuple[int, JobId]]: ...
    def shape(self, shape_id: ShapeId) -> Shape | None: ...
    def stored_decision(self, job_id: JobId) -> StoredDecision | None: ...


class Tx(Reader, Protocol):
    """A reader inside the one write transaction, with the few things that may be written."""

    def apply(self, changes: Changes, *, seen: bool = False) -> bool: ...
    def next_fences(self, count: int) -> list[Fence]: ...
    def skip_fences(self, seen: Fence) -> None: ...
    def put_worker(self, worker: Worker) -> None: ...
    def put_shape(self, shape_id: ShapeId, shape: Shape) -> None: ...
    def put_decision(
        self, decision: Decision, *, at: float = 0.0, inputs: Mapping[str, Any] | None = None
    ) -> None: ...
    def delete_job(self, job_id: JobId) -> bool: ...
    def forget_decisions(self) -> None: ...


class Store(Protocol):
    """One writer. A function given to `write` may run again after a rollback, so it touches
    nothing but its transaction; its future is done once the transaction is committed."""

    def write(self, fn: Callable[[Any], T], durable: bool = False) -> Future[T]: ...
    def write_both(
        self, first: Callable[[Any], T], second: Callable[[Any], U], durable: bool = False
    ) -> tuple[Future[T], Future[U]]: ...
    def read(self) -> AbstractContextManager[Reader]: ...


class Places(Protocol):
    """The dispatcher, for who brings work or makes room; see `dispatch.Dispatcher.write`."""

    def write(
        self, use_case: Callable[[Tx], T], *, reply_to: WorkerId | None = None
    ) -> Future[tuple[T, tuple[Assignment, ...]]]: ...


class Logs(Protocol):
    """Log segments, one file per task. Thread-safe; appends to one task come one at a time."""

    def append(self, job_id: JobId, task_id: TaskId, offset: int, data: bytes) -> int: ...
    def size(self, job_id: JobId, task_id: TaskId) -> int: ...
    def read(self, job_id: JobId, task_ids: Sequence[TaskId], offset: int, limit: int) -> bytes: ...
    def delete(self, job_id: JobId) -> int: ...
    def job_size(self, job_id: JobId) -> int: ...
    def job_ids(self) -> list[JobId]: ...


class Artifacts(Protocol):
    """The part of the artifact store that collection needs."""

    def digests(self) -> Iterable[Digest]: ...
    def path(self, digest: str) -> Path: ...
    def age_seconds(self, digest: str, now: float) -> float: ...
    def delete(self, digest: str) -> int: ...
    def sweep(self, before: float) -> int: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything a use case is given."""

    store: Store
    clock: Clock
    ids: Ids
    wakeups: Wakeups
    logs: Logs
    artifacts: Artifacts
    settings: Settings

    def write(self, use_case: Callable[[Tx], T], *, durable: bool = False) -> Future[T]:
        """One transaction. A fault of ours is told with the story of its job."""
        return self.store.write(_telling(use_case), durable)

    def write_both(
        self, first: Callable[[Tx], T], second: Callable[[Tx], U], *, durable: bool = False
    ) -> tuple[Future[T], Future[U]]:
        """The same for two in one commit; one that fails fails alone."""
        return self.store.write_both(_telling(first), _telling(second), durable)


def _telling(use_case: Callable[[Tx], T]) -> Callable[[Tx], T]:
    def told(tx: Tx) -> T:
        try:
            return use_case(tx)
        except IllegalMoveError as error:
            error.tell(tx.last_events(error.job, 8))
            raise

    return told


def commit(tx: Tx, changes: Changes) -> None:
    """Write changes whose rows were read in this very transaction, so that all guards hold."""
    if changes and not tx.apply(changes, seen=True):
        raise GPULayerError("internal", "a row changed inside the transaction that had read it")


def then(future: Future[T], make: Callable[[T], U]) -> Future[U]:
    """What `make` makes of the result, once it is there; on the thread that brought it."""
    return after(future, lambda done: make(done.result()))


def after(future: Future[T], make: Callable[[Future[T]], U]) -> Future[U]:
    """The same for whatever comes, a failure too."""
    mapped: Future[U] = Future()

    def go_on(done: Future[T]) -> None:
        try:
            mapped.set_result(make(done))
        except BaseException as error:  # handed to whoever waits
            mapped.set_exception(error)

    future.add_done_callback(go_on)
    return mapped
