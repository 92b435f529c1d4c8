"""The table of tasks. A fence names a task for ever, so it is the table's key."""

from __future__ import annotations

from operator import attrgetter

from gpulayer.contracts.changes import TaskUpdate
from gpulayer.contracts.decision import Sent
from gpulayer.contracts.ids import JobId, TaskId, WorkerId
from gpulayer.contracts.records import Task
from gpulayer.contracts.states import Reason, TaskState
from gpulayer.storage.queries import Queries, Writes
from gpulayer.storage.rows import FLAG, JSON, JSON_TUPLE, TEXT, Table, as_enum

TASKS = Table(
    "tasks",
    Task,
    codecs={
        "state": as_enum(TaskState),
        "reason": as_enum(Reason),
        "message": TEXT,
        "phase": TEXT,
        "gpus": JSON_TUPLE,
        "log_complete": FLAG,
        "rendezvous": JSON,
        "preparation": JSON,
        "ending": JSON,
    },
)

_SELECT = f"SELECT {TASKS.columns} FROM tasks"
_BY_ID = f"{_SELECT} WHERE id = ?"
_STATE = "SELECT state FROM tasks WHERE id = ?"
_OF_JOB = f'{_SELECT} WHERE job_id = ? ORDER BY "index", attempt, rank, fence'
_OF_ELEMENT = (
    f'{_SELECT} WHERE job_id = ? AND "index" <= ? AND "index" >= ?'
    ' AND coalesce("last", "index") >= ? ORDER BY attempt, rank, fence'
)
_AFTER = f"{_SELECT} WHERE job_id = ? AND fence > ? ORDER BY fence LIMIT ?"
_OPEN_LOGS = f"{_SELECT} WHERE job_id = ? AND log_complete = 0 AND state <> 'lost'"
_LIVE = f"{_SELECT} WHERE state IN ('assigned', 'running')"
_LIVE_COUNT = "SELECT count(*) FROM tasks WHERE state IN ('assigned', 'running') AND job_id = ?"
_CANCELLING = (
    "SELECT tasks.id, jobs.cancel_mode, jobs.cancel_grace FROM tasks"
    " JOIN jobs ON jobs.id = tasks.job_id"
    " WHERE tasks.worker_id = ? AND tasks.state IN ('assigned', 'running')"
    " AND jobs.cancel_mode IS NOT NULL ORDER BY tasks.fence"
)
# Live first, then assigned: so it walks the index of the few that live.
_SENT = (
    "SELECT tasks.id, jobs.id, tasks.worker_id, jobs.shape_id, jobs.priority, tasks.cpu_cores,"
    " tasks.memory_gb, tasks.phase FROM tasks JOIN jobs ON jobs.id = tasks.job_id"
    " WHERE tasks.state IN ('assigned', 'running') AND tasks.state = 'assigned'"
    " AND tasks.phase IN ('ahead', 'recalled') ORDER BY jobs.priority DESC, jobs.seq"
)
_fence = attrgetter("fence")
_UPDATE = "UPDATE tasks SET {} WHERE id = ? AND state = ?"


class TaskReads(Queries):
    def task(self, task_id: TaskId) -> Task | None:
        row = self._one(_BY_ID, task_id)
        return TASKS.record(row) if row is not None else None

    def tasks(self, job_id: JobId) -> list[Task]:
        """All attempts of a job, by element, attempt, rank."""
        return [TASKS.record(row) for row in self._all(_OF_JOB, job_id)]

    def tasks_of_element(self, job_id: JobId, index: int, since: int | None = None) -> list[Task]:
        """All attempts of one element, in order. `since`: the first index with which a run that
        it is in may begin; None: it is in none."""
        first = index if since is None else since
        rows = self._all(_OF_ELEMENT, job_id, index, first, index)
        return [TASKS.record(row) for row in rows]

    def tasks_after(self, job_id: JobId, fence: int, limit: int) -> list[Task]:
        """Of a job, those with a later fence, in order."""
        return [TASKS.record(row) for row in self._all(_AFTER, job_id, fence, limit)]

    def open_logs(self, job_id: JobId) -> list[Task]:
        """Those of whose log more may come. Costs by the job's tasks."""
        return [TASKS.record(row) for row in self._all(_OPEN_LOGS, job_id)]

    def live_tasks(
        self, *, job_id: JobId | None = None, worker_id: WorkerId | None = None
    ) -> list[Task]:
        """Assigned and running tasks: all, of one job, of one worker. By fence."""
        where, parameters = "", list[object]()
        for column, value in (("job_id", job_id), ("worker_id", worker_id)):
            if value is not None:
                where += f" AND {column} = ?"
                parameters.append(value)
        # Not ordered by the database: it would walk every task there ever was, by its key, to
        # find the few that live, instead of the index that holds just these.
        tasks = [TASKS.record(row) for row in self._all(f"{_LIVE}{where}", *parameters)]
        return sorted(tasks, key=_fence)

    def live_count(self, job_id: JobId) -> int:
        """Assigned and running tasks of one job."""
        return self._number(_LIVE_COUNT, job_id)

    def sent_ahead(self) -> list[Sent]:
        """Tasks that were sent ahead and have not begun: by priority, then by age."""
        return [
            Sent(task, job, worker, shape, rank, cores, memory, phase == "recalled")
            for task, job, worker, shape, rank, cores, memory, phase in self._all(_SENT)
        ]

    def cancelling(self, worker_id: WorkerId) -> list[tuple[TaskId, str, float]]:
        """A worker's live tasks whose job is asked to end: how firmly, with which grace."""
        rows = self._all(_CANCELLING, worker_id)
        return [(TaskId(row[0]), row[1], row[2]) for row in rows]


class TaskWrites(Writes):
    def _task_guard(self, task_id: TaskId) -> str | None:
        row = self._one(_STATE, task_id)
        return row[0] if row is not None else None

    def _insert_task(self, task: Task) -> None:
        self._execute(TASKS.insert, TASKS.row(task))

    def _update_task(self, update: TaskUpdate) -> bool:
        clause, parameters = TASKS.assignments(update.values)
        parameters += (update.task_id, update.expect.value)
        return self._execute(_UPDATE.format(clause), parameters).rowcount == 1
