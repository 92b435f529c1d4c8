"""Checkpoints: the newest few of each job, from the attempt that lives and from no other."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts.ids import JobId
from gpulayer.contracts.records import KeptCheckpoint, Task
from gpulayer.errors import GPULayerError
from gpulayer.storage import Store
from tests.support.records import a_job, end, place, submit

JOB = JobId("train-1")


def of(task: Task, at: float, digest: str = "a" * 64) -> KeptCheckpoint:
    file = {"path": "w", "digest": digest, "size": 3, "executable": False, "mtime_ns": 5}
    return KeptCheckpoint(task.job_id, 0, task.attempt, task.fence, at, at, 3, (file,), at)


def put(store: Store, kept: KeptCheckpoint, keep: int = 2) -> None:
    store.write(lambda tx: tx.put_checkpoint(kept, keep)).result(timeout=30)


def kept(store: Store, job_id: str = JOB) -> list[KeptCheckpoint]:
    with store.read() as reader:
        return reader.checkpoints(JobId(job_id))


def digests(store: Store) -> Any:
    with store.read() as reader:
        return reader.digests_in_use()


def test_the_newest_few_of_each_job_stay_and_name_their_artifacts(store: Store) -> None:
    submit(store, a_job(), a_job("other-1"))
    mine, other = place(store, JOB), place(store, "other-1")
    put(store, of(other, 1.0, "0" * 64))
    rows = [of(mine, float(n), f"{n}" * 64) for n in (1, 2, 3)]
    for row in rows:
        put(store, row)
    assert kept(store) == [rows[2], rows[1]]
    assert digests(store) == {"0" * 64, "2" * 64, "3" * 64}


def test_the_database_takes_none_of_an_attempt_that_is_over(store: Store) -> None:
    submit(store, a_job())
    task = place(store, JOB)
    put(store, of(task, 1.0))
    end(store, task, code=1)
    with pytest.raises(GPULayerError, match="over"):
        put(store, of(task, 2.0))
    assert [row.at for row in kept(store)] == [1.0]


def test_they_go_with_their_job_and_before_it_when_they_are_spent(store: Store) -> None:
    jobs = {"good-1": 0, "bad-1": 1, "old-1": 1, "live-1": None}
    for job_id, code in jobs.items():
        submit(store, a_job(job_id))
        task = place(store, job_id)
        put(store, of(task, 1.0))
        if code is not None:
            end(store, task, code, at=5.0 if job_id == "old-1" else 50.0)
    with store.read() as reader:
        spent = {row.job_id for row in reader.spent_checkpoints(10.0)}
    assert spent == {"good-1", "old-1"}
    store.write(lambda tx: tx.delete_checkpoints(JobId("good-1"))).result(timeout=30)
    assert (len(kept(store, "good-1")), len(kept(store, "bad-1"))) == (0, 1)
    assert store.write(lambda tx: tx.delete_job(JobId("bad-1"))).result(timeout=30)
    assert kept(store, "bad-1") == []
