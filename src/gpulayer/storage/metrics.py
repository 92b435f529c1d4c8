"""The table of metrics: what jobs have reported, a row for each part."""

from __future__ import annotations

from gpulayer.contracts.ids import JobId, TaskId
from gpulayer.contracts.records import KeptMetrics
from gpulayer.storage.queries import Queries, Writes
from gpulayer.storage.rows import JSON_TUPLE, Table

METRICS = Table("metrics", KeptMetrics, codecs={"series": JSON_TUPLE}, given_by_store=("seq",))

_OF_JOB = f"SELECT {METRICS.columns} FROM metrics WHERE job_id = ? ORDER BY seq"
_NEWEST = "SELECT coalesce(max(seq), 0) FROM metrics WHERE job_id = ?"
_READ_TO = "SELECT coalesce(max(read_to), 0) FROM metrics WHERE job_id = ? AND task_id = ?"
_SIZE = "SELECT count(*), coalesce(sum(points), 0) FROM metrics WHERE job_id = ? AND points > 0"
_DELETE = "DELETE FROM metrics WHERE job_id = ?"


class MetricReads(Queries):
    def metrics(self, job_id: JobId) -> list[KeptMetrics]:
        """In the order in which they came."""
        return [METRICS.record(row) for row in self._all(_OF_JOB, job_id)]

    def newest_metrics(self, job_id: JobId) -> int:
        """The number of the newest row; 0: there is none."""
        return self._number(_NEWEST, job_id)

    def metrics_read_to(self, job_id: JobId, task_id: TaskId) -> int:
        """How much of a task's file is taken."""
        return self._number(_READ_TO, job_id, task_id)

    def size_of_metrics(self, job_id: JobId) -> tuple[int, int]:
        """Rows with points in them, and points."""
        row = self._one(_SIZE, job_id)
        return (0, 0) if row is None else (int(row[0]), int(row[1]))


class MetricWrites(Writes):
    def put_metrics(self, kept: KeptMetrics) -> None:
        self._execute(METRICS.insert, METRICS.row(kept))

    def delete_metrics(self, job_id: JobId) -> None:
        self._execute(_DELETE, (job_id,))
