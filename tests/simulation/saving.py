"""Checkpoints in the simulator: what a process has saved is the name of its task and a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpulayer.contracts.messages import CheckpointKept, KeepCheckpoint
from gpulayer.contracts.records import Job, KeptCheckpoint
from tests.simulation.engine import Engine, EngineClock, Share
from tests.simulation.machine import Broken, Record
from tests.simulation.network import Link, Network
from tests.simulation.plane import PlaneHost

INTERVAL_SECONDS = 1.0
ANSWER_SECONDS = 20.0


def saved(task_id: str, number: int) -> dict[str, Any]:
    return {"path": "state", "link": f"{task_id}.{number}"}


class Saver:
    """Says what the tasks of one machine have saved, over a network that is late, or twice, or not
    at all."""

    def __init__(
        self,
        worker_id: str,
        engine: Engine,
        clock: EngineClock,
        network: Network,
        link: Link,
        plane: PlaneHost,
        disk: Mapping[str, Record],
    ) -> None:
        self._worker_id = worker_id
        self._engine = engine
        self._clock = clock
        self._network = network
        self._link = link
        self._plane = plane
        self._disk = disk
        self._numbers: dict[str, int] = {}

    def begin(
        self, task_id: str, fence: int, share: Share, mine: Callable[[Any], Callable[[], None]]
    ) -> None:
        """Until the task has ended, or this life of the agent has."""

        def save() -> None:
            record = self._disk.get(task_id)
            if record is None or record.exit is not None:
                return
            number = self._numbers[task_id] = self._numbers.get(task_id, 0) + 1
            files = (saved(task_id, number),)
            message = KeepCheckpoint(fence, self._clock.now(), self._clock.boottime(), files)
            said = self._plane.keep(self._worker_id, task_id, message)
            self._network.call(self._link, said, self._answered, lambda: None, ANSWER_SECONDS)
            share.after(self._engine.soon(INTERVAL_SECONDS), mine(save))

        share.after(self._engine.soon(INTERVAL_SECONDS), mine(save))

    def _answered(self, answer: Any) -> None:
        if isinstance(answer, CheckpointKept) and answer.missing:
            raise Broken(f"the plane misses what was never sent: {answer}")


class Kept:
    """What must hold of the checkpoints that a plane has."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[int, int]] = {}
        """Job -> fence and number of its newest."""

    def look(self, job: Job, rows: list[KeptCheckpoint], newest_fence: int) -> None:
        """`newest_fence`: the highest of the job's tasks at the look before."""
        if not rows:
            return
        row = rows[0]
        task_id, _, number = row.files[0]["link"].partition(".")
        if task_id != f"t{row.fence}":
            raise Broken(f"{job.id} has what {task_id} saved as a checkpoint of t{row.fence}")
        mark, before = (row.fence, int(number)), self._newest.get(job.id, (0, 0))
        if mark < before:
            raise Broken(f"an older checkpoint of {job.id} replaced a newer: {before}, {mark}")
        if mark > before and row.fence < newest_fence:
            raise Broken(f"{task_id} saved for {job.id} after t{newest_fence} had begun")
        self._newest[job.id] = mark
