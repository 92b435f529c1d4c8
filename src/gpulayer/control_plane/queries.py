"""Looking at jobs, logs, decisions and workers. Reads one instant of the store; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpulayer.contracts.checkpoint_files import digests_of
from gpulayer.contracts.elements import ARRAY_END
from gpulayer.contracts.ids import TaskId, WorkerId
from gpulayer.contracts.records import Event, Job, KeptCheckpoint, Task
from gpulayer.contracts.states import (
    LIVE_JOB_STATES,
    LIVE_TASK_STATES,
    TERMINAL_JOB_STATES,
    JobState,
    TaskState,
)
from gpulayer.control_plane import array_views, views
from gpulayer.control_plane.element_pages import Wanted
from gpulayer.control_plane.element_queries import ElementQueries
from gpulayer.control_plane.lifecycle import gangs
from gpulayer.control_plane.lifecycle.jobs import log_removal
from gpulayer.control_plane.log_parts import LogPart, cursor_of, offsets_of, removed
from gpulayer.control_plane.ports import Ports, Reader
from gpulayer.control_plane.selection import find_job
from gpulayer.control_plane.sessions import Sessions
from gpulayer.control_plane.snapshots import Snapshots
from gpulayer.errors import NotFoundError, UsageError
from gpulayer.runtime import segments

_SHARE_BYTES = 64 << 10
"""Least that an answer holds of each node of a gang, where there is so much."""
HIDDEN = "no GPU asked for: hidden; --gpus 1"


class Queries:
    """Thread-safe."""

    def __init__(self, ports: Ports, sessions: Sessions, snapshots: Snapshots) -> None:
        self._ports = ports
        self._sessions = sessions
        self._snapshots = snapshots
        self._elements = ElementQueries(ports.logs, self._is_written)

    def find(self, selector: str, session: str | None = None, owner: str | None = None) -> Job:
        """The row alone."""
        with self._ports.store.read() as reader:
            return find_job(reader, selector, session, owner)

    def job(self, selector: str, session: str | None = None) -> dict[str, Any]:
        """All that is known of one job, as the JSON of the API."""
        with self._ports.store.read() as reader:
            return self._whole(reader, find_job(reader, selector, session))

    def jobs(
        self,
        *,
        ended: bool = False,
        name: str | None = None,
        states: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Newest first; without `ended`, `name` or `states` the unfinished ones. `ended` alone is
        a list of work: what only prepared an environment is left out once it has ended."""
        wanted = None if states is None else _states(states)
        if wanted is None and not ended and name is None:
            wanted = LIVE_JOB_STATES
        is_work = ended and name is None and states is None
        with self._ports.store.read() as reader:
            live = {task.job_id: task for task in reader.live_tasks()}
            told: dict[str, str] = {}
            found, now = [], self._ports.clock.now()
            for job in reader.jobs(states=wanted, name=name, limit=limit, is_work=is_work):
                task = live.get(job.id) if job.elements is None else None
                if task is None and job.elements is None and job.state in TERMINAL_JOB_STATES:
                    task = _newest(reader.tasks(job.id))
                if job.state is JobState.QUEUED and job.shape_id not in told:
                    told[job.shape_id] = _summary(reader, job)
                waits = job.state is JobState.QUEUED and not job.is_held and job.not_before <= now
                summary = told[job.shape_id] if waits else ""
                name_of_worker = self._worker(reader, task)
                array = array_views.array_json(reader, job, with_failed=False)
                found.append(
                    views.job_json(
                        job, task=task, worker=name_of_worker, summary=summary, array=array
                    )
                )
            return found

    def events(self, selector: str, after: int = 0) -> list[dict[str, Any]]:
        with self._ports.store.read() as reader:
            job = find_job(reader, selector)
            return [views.event_json(event) for event in reader.events(job.id, after)]

    def decision(self, selector: str) -> dict[str, Any] | None:
        """The stored decision about a job; None: no pass has looked at it yet."""
        with self._ports.store.read() as reader:
            job = find_job(reader, selector)
            stored = None if job.is_held else reader.stored_decision(job.id)
            return None if stored is None else views.decision_json(stored)

    def elements(self, selector: str, wanted: Wanted) -> dict[str, Any]:
        """A page of those of an array."""
        with self._ports.store.read() as reader:
            return self._elements.page(reader, find_job(reader, selector), wanted)

    def log(self, selector: str, cursor: str, limit: int, index: int | None = None) -> LogPart:
        """A job's attempts one after another, from a cursor that stays good as it grows: empty, or
        what an answer named as next. Of the nodes of a gang and of the elements of an array, whole
        records in turn; `index`: of that element alone."""
        with self._ports.store.read() as reader:
            job = find_job(reader, selector)
            if job.elements is not None:
                return self._elements.log(reader, job, index, cursor, limit)
            tasks = sorted(reader.tasks(job.id), key=lambda task: task.fence)
        is_over = job.state in TERMINAL_JOB_STATES and self._is_log_complete(job, tasks)
        offsets = offsets_of(cursor)
        logs, names = self._ports.logs, [TaskId(task.id) for task in tasks]
        if gangs.is_gang(job):
            part = self._gang_log(job, tasks, offsets, limit, is_over)
        else:
            data = logs.read(job.id, names, offsets[0], limit)
            is_all = is_over and len(data) < limit
            part = LogPart((data,), str(offsets[0] + len(data)), is_all)
        size = sum(logs.size(job.id, name) for name in names)
        if is_over and not size and (removal := self._removal(job)) is not None:
            return removed(removal, offsets, sum(task.log_size for task in tasks))
        return part if gangs.is_gang(job) else part._replace(size=size)

    def _removal(self, job: Job) -> Event | None:
        with self._ports.store.read() as reader:
            return log_removal(reader.events(job.id))

    def _gang_log(
        self, job: Job, tasks: list[Task], offsets: list[int], limit: int, is_over: bool
    ) -> LogPart:
        """The cursor has an offset for each task, in the order of their fences."""
        offsets += [0] * (len(tasks) - len(offsets))
        share, parts = max(_SHARE_BYTES, limit // max(1, len(tasks))), []
        for at, task in enumerate(tasks):
            for most in (share, segments.MAX_RECORD + segments.HEADER.size):
                data = self._ports.logs.read(job.id, [task.id], offsets[at], most)
                end = segments.whole(data)
                if end or len(data) < most:
                    break
            is_over = is_over and len(data) < most
            offsets[at] += end
            parts.append(data[:end])
        return LogPart(tuple(parts), cursor_of(offsets), is_over)

    def last_end(self) -> int:
        """The number of the newest end of any job; what comes later is greater."""
        with self._ports.store.read() as reader:
            return reader.last_end()

    def ended(self, session: str, after: int, limit: int) -> tuple[list[dict[str, Any]], int]:
        """Jobs of an SDK session that ended after the end numbered `after`, in order, with their
        results; and the number to go on from."""
        with self._ports.store.read() as reader:
            ends = reader.ended_of_session(session, after, limit)
            jobs = (reader.job(job_id) for _, job_id in ends)
            found = [self._whole(reader, job) for job in jobs if job is not None]
        return found, ends[-1][0] if ends else after

    def workers(self) -> list[dict[str, Any]]:
        with self._ports.store.read() as reader:
            seen = {view.worker_id: view for view in self._snapshots.views(reader)}
            return [views.worker_json(w, seen.get(w.id)) for w in reader.workers()]

    def worker_id(self, selector: str) -> str:
        """Of a worker's id or name."""
        with self._ports.store.read() as reader:
            for worker in reader.workers():
                if selector in (worker.id, worker.name):
                    return worker.id
        raise NotFoundError(
            "worker-not-found", f"no worker is called {selector!r}", hint="gpulayer workers"
        )

    def task(self, task_id: str) -> Task | None:
        with self._ports.store.read() as reader:
            return reader.task(TaskId(task_id))

    def tasks_of(self, worker_id: str) -> list[Task]:
        with self._ports.store.read() as reader:
            return reader.live_tasks(worker_id=WorkerId(worker_id))

    def needs_artifact(self, worker_id: str, digest: str) -> bool:
        """Whether a live task of the worker is of a job whose spec or checkpoint names it."""
        name = f"artifact://sha256/{digest}"
        with self._ports.store.read() as reader:
            tasks = reader.live_tasks(worker_id=WorkerId(worker_id))
            jobs = (reader.job(task.job_id) for task in tasks)
            return any(
                job is not None and (_names(job.spec, name) or _has_kept(reader, job, digest))
                for job in jobs
            )

    def counts(self) -> Mapping[str, int]:
        """Jobs by state."""
        with self._ports.store.read() as reader:
            return {str(state): n for state, n in reader.counts().items()}

    def _whole(self, reader: Reader, job: Job) -> dict[str, Any]:
        is_array = job.elements is not None
        tasks = reader.open_logs(job.id) if is_array else reader.tasks(job.id)
        task = None if is_array else _newest(tasks)
        gang = sorted(gangs.newest(tasks).items()) if gangs.is_gang(job) else ()
        return views.job_json(
            job,
            task=task,
            worker=self._worker(reader, task),
            nodes=[(node, self._worker(reader, node)) for _, node in gang],
            result=reader.result(job.id, ARRAY_END if is_array else 0),
            outputs=array_views.place_outputs(job, reader.outputs(job.id)),
            array=array_views.array_json(reader, job, with_failed=True),
            summary="" if self._says_why_itself(job) else _summary(reader, job),
            log_complete=self._is_log_complete(
                job, reader.open_logs(job.id) if is_array else tasks
            ),
            checkpoint=self._checkpoint(reader, job),
            note=HIDDEN if self._hides_gpus(job) else "",
        )

    def _checkpoint(self, reader: Reader, job: Job) -> KeptCheckpoint | None:
        kept = reader.checkpoints(job.id) if job.spec.get("checkpoint") else ()
        return next(iter(kept), None)

    def _says_why_itself(self, job: Job) -> bool:
        """It needs no decision: it is done, or waits for other jobs or the time of its next
        attempt."""
        is_early = job.is_held or job.not_before > self._ports.clock.now()
        return job.state is JobState.SUCCEEDED or is_early

    def _hides_gpus(self, job: Job) -> bool:
        """Whether a job here runs beside GPUs that it did not ask for and cannot see."""
        asked = job.spec.get("resources") or {}
        if (
            asked.get("gpu_count")
            or asked.get("profile")
            or asked.get("accelerator", "cpu") != "cpu"
        ):
            return False
        if "cwd" not in job.origin or job.origin.get("visible_gpus") == []:
            return False
        return any(s.worker.target == "local" and s.capabilities.gpus for s in self._sessions.all())

    def _worker(self, reader: Reader, task: Task | None) -> str | None:
        """The name of the worker that has or had the task."""
        if task is None:
            return None
        session = self._sessions.get(task.worker_id)
        worker = reader.worker(task.worker_id) if session is None else session.worker
        return task.worker_id if worker is None else worker.name

    def _is_log_complete(self, job: Job, tasks: list[Task]) -> bool:
        """Whether nothing more of the log will come: all is here, or nobody is left to send it."""
        if job.elements is not None:
            return not any(map(self._is_written, tasks))
        return not any(self._is_written(task) for task in gangs.newest(tasks).values())

    def _is_written(self, task: Task) -> bool:
        if task.state in LIVE_TASK_STATES:
            return True
        is_whole = task.log_complete or task.state is TaskState.LOST
        return not is_whole and self._sessions.keeps(task.worker_id, task.id)


def _has_kept(reader: Reader, job: Job, digest: str) -> bool:
    if not job.spec.get("checkpoint"):
        return False
    return any(digest in digests_of(one.files) for one in reader.checkpoints(job.id))


def _names(value: Any, name: str) -> bool:
    """Whether the text stands anywhere in a JSON value."""
    if isinstance(value, Mapping):
        return any(_names(item, name) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_names(item, name) for item in value)
    return bool(value == name)


def _newest(tasks: Iterable[Task]) -> Task | None:
    return max(tasks, key=lambda task: task.fence, default=None)


def _summary(reader: Reader, job: Job) -> str:
    stored = reader.stored_decision(job.id)
    return "" if stored is None else stored.decision.summary


def _states(names: Iterable[str]) -> frozenset[JobState]:
    try:
        return frozenset(map(JobState, names))
    except ValueError as error:
        known = ", ".join(JobState)
        why = f"{error}; the states are {known}"
        raise UsageError("usage", why, hint="gpulayer ps -a") from error
