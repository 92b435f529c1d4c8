"""What a worker is told to do: begin a task, end one and how firmly."""

from __future__ import annotations

from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.messages import Assignment, Cancel
from gpulayer.contracts.records import Job, Task
from gpulayer.control_plane.ports import Reader


def cancels(reader: Reader, worker_id: WorkerId) -> list[Cancel]:
    """Until a task has ended, it is asked again with every answer to its worker."""
    return [Cancel(*asked) for asked in reader.cancelling(worker_id)]


def assignment(job: Job, task: Task) -> Assignment:
    return Assignment(
        task_id=task.id,
        fence=task.fence,
        job_id=job.id,
        job_name=job.name,
        index=task.index,
        attempt=task.attempt,
        rank=task.rank,
        spec=job.spec,
        origin=job.origin,
        envelope_id=job.envelope_id,
        gpus=task.gpus,
        timeout_seconds=job.spec.get("timeout_seconds"),
    )
