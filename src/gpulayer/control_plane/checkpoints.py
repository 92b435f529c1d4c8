"""Taking the checkpoints of running tasks. Their files are stored before, so that what is recorded
can always be put back; whether it counts is decided in the transaction that records it."""

from __future__ import annotations

from concurrent.futures import Future

from gpulayer.contracts import keeping
from gpulayer.contracts.checkpoint_files import digests_of, require_files
from gpulayer.contracts.ids import TaskId
from gpulayer.contracts.messages import CheckpointKept, KeepCheckpoint
from gpulayer.contracts.records import Job
from gpulayer.control_plane.lifecycle import checkpoints as rules
from gpulayer.control_plane.ports import Ports, Tx, commit, then
from gpulayer.control_plane.wakeups import job_topic

_NOTE = 500
"""Characters of a note that are kept."""


class Checkpoints:
    """Thread-safe."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    def keep(self, task_id: str, asked: KeepCheckpoint) -> Future[CheckpointKept]:
        """Answered once it is recorded. Raises UsageError for files that could not be put back."""
        if asked.files:
            require_files(asked.files)
        wanted = sorted(digests_of(asked.files))
        missing = tuple(d for d in wanted if not self._ports.artifacts.touch(d))
        if missing:
            answer: Future[CheckpointKept] = Future()
            answer.set_result(CheckpointKept(kept=False, missing=missing))
            return answer
        now, note = self._ports.clock.now(), asked.note[:_NOTE]

        def record(tx: Tx) -> tuple[CheckpointKept, Job | None]:
            task = tx.task(TaskId(task_id))
            job = None if task is None else tx.job(task.job_id)
            if task is None or job is None or rules.is_over(task, asked.fence):
                return CheckpointKept(kept=False, over=True), None
            if not asked.files:
                commit(tx, rules.not_kept(job, task, note, now))
                return CheckpointKept(kept=False), job
            newest = next(iter(tx.checkpoints(job.id, task.index)), None)
            row = rules.kept(task, newest, asked, now)
            if row is None:
                return CheckpointKept(kept=False), None
            tx.put_checkpoint(row, keeping.CHECKPOINTS)
            commit(tx, rules.told(job, task, row, note, now))
            return CheckpointKept(kept=True), job

        def tell(done: tuple[CheckpointKept, Job | None]) -> CheckpointKept:
            if done[1] is not None:
                self._ports.wakeups.publish(job_topic(done[1].id))
            return done[0]

        return then(self._ports.write(record, durable=True), tell)
