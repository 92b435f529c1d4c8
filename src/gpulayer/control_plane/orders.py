"""Which of a worker's tasks are asked to end, and how firmly."""

from __future__ import annotations

from collections.abc import Iterable

from gpulayer.contracts.messages import Cancel
from gpulayer.contracts.records import Task
from gpulayer.control_plane.ports import Reader


def cancels(reader: Reader, live: Iterable[Task]) -> list[Cancel]:
    """Of `live` tasks those whose job somebody wants ended."""
    orders = []
    for task in live:
        job = reader.job(task.job_id)
        if job is not None and job.cancel_mode is not None:
            orders.append(Cancel(task.id, job.cancel_mode, job.cancel_grace))
    return orders
