"""What a worker is told to do: begin a task, end one and how firmly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpulayer.contracts import runs
from gpulayer.contracts.elements import element_spec
from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.messages import Assignment, Cancel
from gpulayer.contracts.records import AHEAD_PHASES, Job, Task
from gpulayer.control_plane.ports import Reader
from gpulayer.control_plane.sessions import Sessions


def cancels(reader: Reader, worker_id: WorkerId) -> list[Cancel]:
    """Until a task has ended, it is asked again with every answer to its worker."""
    return [Cancel(*asked) for asked in reader.cancelling(worker_id)]


def assignment(
    reader: Reader,
    job: Job,
    task: Task,
    gang: Sequence[Task] = (),
    sessions: Sessions | None = None,
) -> Assignment:
    """`gang`: all nodes of the task's attempt, in order; `sessions` know where they are."""
    kept = reader.checkpoints(job.id, task.index) if job.spec.get("checkpoint") else ()
    return Assignment(
        task_id=task.id,
        fence=task.fence,
        job_id=job.id,
        job_name=job.name,
        index=task.index,
        attempt=task.attempt,
        rank=task.rank,
        spec=job.spec if job.elements is None else element_spec(job.spec, task.index),
        origin=job.origin,
        envelope_id=job.envelope_id,
        gpus=task.gpus,
        timeout_seconds=job.spec.get("timeout_seconds"),
        ahead=task.phase in AHEAD_PHASES,
        run=None if task.last is None else runs.told(job.spec, task.index, task.last),
        gang=_gang(gang, sessions) if gang and sessions else None,
        checkpoints=tuple(
            {"attempt": one.attempt, "at": one.at, "size": one.size, "files": one.files}
            for one in kept
        ),
    )


def is_ready(job: Job, task: Task, gang: Sequence[Task]) -> bool:
    """Whether a node can be handed out: the first one at once, the others when it has said where
    they meet. Those of a job that is to end are, so that their workers can say that they did."""
    return task.rank == 0 or bool(gang[0].rendezvous) or job.cancel_requested_at is not None


def _gang(gang: Sequence[Task], sessions: Sessions) -> dict[str, Any]:
    def node(worker_id: WorkerId) -> dict[str, Any]:
        session = sessions.get(worker_id)
        return {
            "worker_id": worker_id,
            "name": worker_id if session is None else session.worker.name,
            "address": None if session is None else session.capabilities.address,
        }

    return {
        "id": min(task.fence for task in gang),
        "nodes": [node(task.worker_id) for task in gang],
        "rendezvous": gang[0].rendezvous,
    }
