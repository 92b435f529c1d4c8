"""Which of a worker's tasks are asked to end, and how firmly."""

from __future__ import annotations

from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.messages import Cancel
from gpulayer.control_plane.ports import Reader


def cancels(reader: Reader, worker_id: WorkerId) -> list[Cancel]:
    """Until a task has ended, it is asked again with every answer to its worker."""
    return [Cancel(*asked) for asked in reader.cancelling(worker_id)]
