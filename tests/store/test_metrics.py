"""Metrics: parts in the order in which they came, counted and let go of."""

from __future__ import annotations

from gpulayer.contracts.ids import JobId, TaskId
from gpulayer.contracts.records import KeptMetrics
from gpulayer.storage import Store
from tests.support.records import a_job, end, place, submit

JOB, TASK = JobId("train-1"), TaskId("t1")


def put(store: Store, job: str, read_to: int, *points: list[object], task: str = TASK) -> None:
    series = ([0, 1, "loss é", list(points)],) if points else ()
    row = KeptMetrics(JobId(job), task, read_to, len(points), series)
    store.write(lambda tx: tx.put_metrics(row)).result(timeout=30)


def test_parts_come_back_in_order_and_are_counted(store: Store) -> None:
    submit(store, a_job(), a_job("other-1"))
    with store.read() as reader:
        assert reader.newest_metrics(JOB) == reader.metrics_read_to(JOB, TASK) == 0
        assert reader.size_of_metrics(JOB) == (0, 0)
    put(store, JOB, 10, [1, 5.0, 0.25], [2, 5.0, "nan"])
    put(store, "other-1", 99, [1, 5.0, 1.0])
    put(store, JOB, 20, [3, 6.0, 1e-9])
    put(store, JOB, 30)
    with store.read() as reader:
        rows = reader.metrics(JOB)
        assert [row.read_to for row in rows] == [10, 20, 30]
        assert rows[0].series == ([0, 1, "loss é", [[1, 5.0, 0.25], [2, 5.0, "nan"]]],)
        assert reader.size_of_metrics(JOB) == (2, 3)
        assert reader.metrics_read_to(JOB, TASK) == 30
        assert reader.metrics_read_to(JOB, TaskId("t2")) == 0
        assert reader.newest_metrics(JOB) == rows[-1].seq > rows[0].seq
    store.write(lambda tx: tx.delete_metrics(JOB)).result(timeout=30)
    with store.read() as reader:
        assert reader.metrics(JOB) == []
        assert len(reader.metrics(JobId("other-1"))) == 1


def test_they_go_with_their_job(store: Store) -> None:
    submit(store, a_job())
    task = place(store, JOB)
    put(store, JOB, 10, [1, 5.0, 0.25])
    end(store, task)
    store.write(lambda tx: tx.delete_job(JOB)).result(timeout=30)
    with store.read() as reader:
        assert reader.metrics(JOB) == []
