"""Reader: every named query on one instant of the store. Tx: the same, and what may be written."""

from __future__ import annotations

from gpulayer.contracts.changes import Changes
from gpulayer.contracts.ids import Fence
from gpulayer.storage.arrays import ArrayReads, ArrayWrites
from gpulayer.storage.awaits import AwaitReads, AwaitWrites
from gpulayer.storage.checkpoints import CheckpointWrites
from gpulayer.storage.credentials import CredentialReads, CredentialWrites
from gpulayer.storage.decisions import DecisionReads, DecisionWrites
from gpulayer.storage.engine import RowRefused
from gpulayer.storage.fences import Fences
from gpulayer.storage.jobs import JobReads, JobWrites
from gpulayer.storage.memo import Memo
from gpulayer.storage.metrics import MetricReads, MetricWrites
from gpulayer.storage.planes import PlaneReads, PlaneWrites
from gpulayer.storage.queries import Execute
from gpulayer.storage.results import ResultReads, ResultWrites
from gpulayer.storage.stream import EventReads, EventWrites
from gpulayer.storage.tasks import TaskReads, TaskWrites
from gpulayer.storage.workers import WorkerReads, WorkerWrites

_META = "SELECT value FROM meta WHERE key = ?"
_PUT_META = (
    "INSERT INTO meta (key, value) VALUES (?, ?)"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


class Reader(
    JobReads,
    TaskReads,
    ArrayReads,
    AwaitReads,
    WorkerReads,
    EventReads,
    ResultReads,
    DecisionReads,
    CredentialReads,
    PlaneReads,
    MetricReads,
):
    """Every query of one `read()` sees the same instant. For the thread that opened it."""

    def meta(self, key: str) -> str | None:
        """A fact about the whole store, such as the plane's id."""
        row = self._one(_META, key)
        return row[0] if row is not None else None


class Tx(
    JobWrites,
    TaskWrites,
    ArrayWrites,
    AwaitWrites,
    WorkerWrites,
    EventWrites,
    CheckpointWrites,
    ResultWrites,
    DecisionWrites,
    CredentialWrites,
    PlaneWrites,
    MetricWrites,
    Reader,
):
    """The one write transaction. Valid inside the function given to `Store.write`, nowhere else."""

    def __init__(self, execute: Execute, memo: Memo, fences: Fences, law: type[Exception]) -> None:
        super().__init__(execute, memo)
        self._fences = fences
        self._law = law

    def apply(self, changes: Changes, *, seen: bool = False) -> bool:
        """Write all of it; or, when a guard no longer holds, nothing, and answer False.

        `seen`: what it was made from was read in this very transaction, so no guard is looked at
        beforehand; where one fails all the same the caller must fail too. A move that the law
        forbids is a fault of the caller: it raises, with the job's story.
        """
        try:
            if not self._update(changes, seen):
                return False
            self._tally_moves(changes.job_updates)
            for job in changes.jobs:
                self._insert_job(job)
            for task in changes.tasks:
                self._insert_task(task)
            for result in changes.results:
                self._insert_result(result)
            for output in changes.outputs:
                self._insert_output(output)
            for job_id in changes.undone:
                self._delete_outputs(job_id)
            for event in changes.events:
                self._insert_event(event)
            for chunk in changes.chunks:
                self._put_chunk(chunk)
            for progress in changes.progress:
                self._put_progress(progress)
        except self._law as error:
            raise self._refused(changes, error) from error
        return True

    def next_fence(self) -> Fence:
        """A fence that nobody was ever given."""
        return Fence(self._fences.take(1)[0])

    def next_fences(self, count: int) -> list[Fence]:
        """Several at once, ascending."""
        return [Fence(number) for number in self._fences.take(count)]

    def skip_fences(self, seen: Fence) -> None:
        """Never give `seen` or one below it again: a worker of before a restore still holds it."""
        self._fences.pass_over(seen)
        if self.epoch:  # the plane that schedules may hold a block around it
            self.nobody_schedules()

    def schedule_by(self, plane: str) -> int:
        self._fences.forget()
        return super().schedule_by(plane)

    def set_meta(self, key: str, value: str) -> None:
        self._execute(_PUT_META, (key, value))

    def _update(self, changes: Changes, seen: bool) -> bool:
        # One update checks itself. Of several, all are checked before the first is written:
        # nobody else writes meanwhile, and a savepoint costs more than the reads.
        several = len(changes.job_updates) + len(changes.task_updates) > 1
        if several and not seen and not self._guards_hold(changes):
            return False
        return all(map(self._update_task, changes.task_updates)) and all(
            map(self._update_job, changes.job_updates)
        )

    def _guards_hold(self, changes: Changes) -> bool:
        states: dict[str, tuple[str, int] | str | None] = {}
        for task in changes.task_updates:
            if states.get(task.task_id, self._task_guard(task.task_id)) != task.expect.value:
                return False
            states[task.task_id] = str(task.values.get("state", task.expect))
        for job in changes.job_updates:
            expected = (job.expect.value, job.version)
            if states.get(job.job_id, self._job_guard(job.job_id)) != expected:
                return False
            states[job.job_id] = (str(job.values.get("state", job.expect)), job.version + 1)
        return True

    def _refused(self, changes: Changes, error: Exception) -> RowRefused:
        touched = [update.job_id for update in changes.job_updates]
        touched += [event.job_id for event in changes.events]
        touched += [job.id for job in changes.jobs]
        job_id = touched[0] if touched else None
        return RowRefused(
            "internal",
            f"The store refused a change of {job_id or 'its rows'}: {error}.",
            job_id=job_id,
        )
