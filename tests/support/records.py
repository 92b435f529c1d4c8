"""Jobs and tasks with sensible defaults, and the moves of their lives written into a store."""

from __future__ import annotations

from typing import Any

from gpulayer.contracts.changes import Changes, JobUpdate, NewEvent, TaskUpdate
from gpulayer.contracts.ids import Fence, JobId, ShapeId, TaskId, WorkerId
from gpulayer.contracts.records import Job, Result, Task, Worker
from gpulayer.contracts.states import JobState, Reason, TaskState
from gpulayer.storage import Store, Tx


def a_job(job_id: str = "train-1", **changes: Any) -> Job:
    values: dict[str, Any] = {
        "id": JobId(job_id),
        "seq": 0,
        "name": job_id.rpartition("-")[0] or job_id,
        "spec": {"command": ["true"]},
        "shape_id": ShapeId("shape-1"),
        "state": JobState.QUEUED,
        "reason": Reason.SUBMITTED,
        "submitted_at": 1.0,
    }
    return Job(**values | changes)


def a_task(fence: int, job_id: str = "train-1", **changes: Any) -> Task:
    values: dict[str, Any] = {
        "id": TaskId(f"t{fence}"),
        "fence": Fence(fence),
        "job_id": JobId(job_id),
        "index": 0,
        "attempt": 1,
        "rank": 0,
        "worker_id": WorkerId("lab-1"),
        "incarnation": 1,
        "state": TaskState.ASSIGNED,
        "reason": Reason.PLACED,
    }
    return Task(**values | changes)


def a_worker_row(worker_id: str = "lab-1", **changes: Any) -> Worker:
    values: dict[str, Any] = {
        "id": WorkerId(worker_id),
        "name": worker_id,
        "target": "local",
        "incarnation": 1,
        "capabilities": {"hostname": worker_id},
    }
    return Worker(**values | changes)


def submission(job: Job) -> Changes:
    event = NewEvent(job.id, "submitted", "queued", "submitted", job.submitted_at)
    return Changes(jobs=(job,), events=(event,))


def placement(job: Job, *tasks: Task) -> Changes:
    values = {"state": JobState.SCHEDULED, "reason": Reason.PLACED, "attempt": job.attempt + 1}
    return Changes(
        job_updates=(JobUpdate(job.id, job.state, job.version, values),),
        tasks=tasks,
        events=(NewEvent(job.id, "placed", "scheduled", "placed", 2.0, task_id=tasks[0].id),),
    )


def ending(job: Job, task: Task, code: int = 0, at: float = 3.0) -> Changes:
    """The task ends and its job with it."""
    good = code == 0
    values = {"reason": Reason.EXITED, "exit_code": code, "finished_at": at}
    task_state = TaskState.SUCCEEDED if good else TaskState.FAILED
    job_state = JobState.SUCCEEDED if good else JobState.FAILED
    return Changes(
        task_updates=(TaskUpdate(task.id, task.state, {"state": task_state, **values}),),
        job_updates=(JobUpdate(job.id, job.state, job.version, {"state": job_state, **values}),),
        events=(NewEvent(job.id, "finished", job_state, "exited", at, task_id=task.id),),
        results=(Result(job.id, task.index, task.attempt, job_state, code, finished_at=at),),
    )


def apply(store: Store, changes: Changes) -> bool:
    return store.write(lambda tx: tx.apply(changes)).result(timeout=30)


def job_of(store: Store, job_id: str) -> Job:
    with store.read() as reader:
        job = reader.job(JobId(job_id))
    assert job is not None
    return job


def submit(store: Store, *jobs: Job) -> list[Job]:
    for job in jobs:
        assert apply(store, submission(job))
    return [job_of(store, job.id) for job in jobs]


def place(store: Store, job_id: str, **changes: Any) -> Task:
    def run(tx: Tx) -> Task:
        job = tx.job(JobId(job_id))
        assert job is not None
        task = a_task(tx.next_fence(), job_id, attempt=job.attempt + 1, **changes)
        assert tx.apply(placement(job, task))
        return task

    return store.write(run).result(timeout=30)


def end(store: Store, task: Task, code: int = 0, at: float = 3.0) -> None:
    assert apply(store, ending(job_of(store, task.job_id), task, code, at))


def run_through(store: Store, job_id: str, code: int = 0, at: float = 3.0) -> Task:
    """Submit, place, end."""
    submit(store, a_job(job_id))
    task = place(store, job_id)
    end(store, task, code, at)
    return task
