"""Faults of ours in the taking of checkpoints; see `planted`."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Future
from typing import Any

from gpulayer.contracts.messages import CheckpointKept, KeepCheckpoint
from gpulayer.contracts.states import LIVE_TASK_STATES
from gpulayer.control_plane.plane import ControlPlane
from tests.simulation.seams import SLOW_ALONE, Bug, PlaneWithItsStore, drawn_with
from tests.simulation.world import Parts


class AnyAttemptSaves(PlaneWithItsStore):
    """A checkpoint of an attempt that is over is taken for one of the attempt that lives. (As it
    is it cannot be written: the database refuses it.)"""

    def keep_checkpoint(self, task_id: str, message: KeepCheckpoint) -> Future[CheckpointKept]:
        with self.store.read() as reader:
            task = reader.task(task_id)
            if task is not None and task.state not in LIVE_TASK_STATES:
                for live in reader.live_tasks(job_id=task.job_id):
                    task_id = live.id
                    message = dataclasses.replace(message, fence=live.fence)
        return super().keep_checkpoint(task_id, message)


class LastWordWins(ControlPlane):
    """Of one attempt the checkpoint counts that arrives last, and not the one taken last."""

    def __init__(self, *ports: Any) -> None:
        super().__init__(*ports)
        self._words = 0.0

    def keep_checkpoint(self, task_id: str, message: KeepCheckpoint) -> Future[CheckpointKept]:
        self._words += 1e6
        return super().keep_checkpoint(task_id, dataclasses.replace(message, boot=self._words))


SLOW = drawn_with(**SLOW_ALONE, double=0.3)

BUGS_OF_CHECKPOINTS = (
    Bug("any attempt saves", Parts(AnyAttemptSaves, faults=SLOW, saves=True)),
    Bug("last word wins", Parts(LastWordWins, faults=SLOW, saves=True)),
)
