"""Taking what running tasks report, and telling it. A part is taken once, whoever sends it again:
it begins where the one before it ended, or it is not taken."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from gpulayer.contracts import metrics
from gpulayer.contracts.changes import Changes, NewEvent
from gpulayer.contracts.ids import TaskId
from gpulayer.contracts.limits import METRIC_POINTS, METRIC_SERIES
from gpulayer.contracts.messages import KeepMetrics, MetricsKept
from gpulayer.contracts.records import Job, KeptMetrics, Task
from gpulayer.contracts.states import LIVE_TASK_STATES
from gpulayer.control_plane.lifecycle import checkpoints as rules
from gpulayer.control_plane.ports import Ports, Tx, commit, then
from gpulayer.control_plane.selection import find_job
from gpulayer.control_plane.wakeups import job_topic

ROWS = 1_000
"""Of a job; more are joined into one."""
_NOTE = 500
"""Characters of a note that are kept."""
_TOO_MANY = f"more than {METRIC_SERIES:,} series: those that came last are left out"


class Metrics:
    """Thread-safe."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    def keep(self, task_id: str, asked: KeepMetrics) -> Future[MetricsKept]:
        """Raises UsageError for what are no metrics."""
        told = metrics.checked(asked.series)
        now = self._ports.clock.now()

        def record(tx: Tx) -> tuple[MetricsKept, Job | None]:
            task = tx.task(TaskId(task_id))
            job = None if task is None else tx.job(task.job_id)
            if task is None or job is None or rules.is_over(task, asked.fence):
                return MetricsKept(over=True), None
            read_to = tx.metrics_read_to(job.id, task.id)
            if asked.begins != read_to or asked.ends < read_to:
                return MetricsKept(read_to), None
            ours = range(task.index, (task.index if task.last is None else task.last) + 1)
            mine = [(index, name, points) for index, name, points in told if index in ours]
            series = tuple([index, task.attempt, name, points] for index, name, points in mine)
            count = sum(len(points) for _, _, points in mine)
            tx.put_metrics(KeptMetrics(job.id, task.id, asked.ends, count, series))
            notes = [asked.note[:_NOTE], _joined(tx, job)]
            _tell(tx, job, task, filter(None, notes), now)
            return MetricsKept(asked.ends), job

        def publish(done: tuple[MetricsKept, Job | None]) -> MetricsKept:
            if done[1] is not None:
                self._ports.wakeups.publish(job_topic(done[1].id))
            return done[0]

        return then(self._ports.write(record), publish)

    def told(
        self,
        selector: str,
        *,
        name: str | None = None,
        index: int | None = None,
        whole: bool = False,
    ) -> dict[str, Any]:
        """The newest of each series, of that name and element alone; `whole`: all points."""
        with self._ports.store.read() as reader:
            job = find_job(reader, selector)
            rows = reader.metrics(job.id)
        curves = metrics.curves(metrics.joined(row.series for row in rows))
        return {
            "job": job.id,
            "series": [
                metrics.curve_json(*key, curve, whole=whole)
                for key, curve in sorted(curves.items(), key=lambda item: (item[0][1], item[0][0]))
                if name in (None, key[1]) and index in (None, key[0])
            ],
            "next": max((row.seq for row in rows), default=0),
            "ended": job.finished_at is not None,
        }

    def newest(self, job_id: str) -> int:
        """Grows with every part that is taken."""
        with self._ports.store.read() as reader:
            return reader.newest_metrics(find_job(reader, job_id).id)


def _joined(tx: Tx, job: Job) -> str:
    """Make one row of many, once there are too many; says what had to go."""
    rows, points = tx.size_of_metrics(job.id)
    if rows <= ROWS and points <= METRIC_POINTS:
        return ""
    found = tx.metrics(job.id)
    series, left_out = metrics.bounded(metrics.joined(row.series for row in found))
    count = sum(map(len, series.values()))
    tx.delete_metrics(job.id)
    tx.put_metrics(KeptMetrics(job.id, "", 0, count, tuple(metrics.stored(series))))
    for task_id in dict.fromkeys(row.task_id for row in found if row.task_id):
        task = tx.task(TaskId(task_id))
        if task is not None and task.state in LIVE_TASK_STATES:
            read_to = max(row.read_to for row in found if row.task_id == task_id)
            tx.put_metrics(KeptMetrics(job.id, task_id, read_to, 0, ()))
    return _TOO_MANY if left_out else ""


def _tell(tx: Tx, job: Job, task: Task, notes: Iterable[str], now: float) -> None:
    """In the job's story, each once."""
    for note in notes:
        if not any(e.kind == "metrics" and e.message == note for e in tx.events(job.id)):
            data = {"attempt": task.attempt, "note": note}
            event = NewEvent(job.id, "metrics", job.state, job.reason, now, note, task.id, data)
            commit(tx, Changes(events=(event,)))
