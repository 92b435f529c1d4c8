"""What the scheduler is shown: the workers of this moment, and what their tasks hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpulayer.contracts.decision import Allocation, Pending, Sent, Shape, Snapshot, WorkerView
from gpulayer.contracts.ids import JobId, ShapeId, WorkerId
from gpulayer.contracts.records import AHEAD_PHASES, Job, Task
from gpulayer.contracts.states import LIVE_TASK_STATES
from gpulayer.control_plane.ports import Ports, Reader
from gpulayer.control_plane.scheduler import ahead
from gpulayer.control_plane.sessions import Session, Sessions

_MOST_LIMITS = 4096
"""Jobs whose limit is remembered; of others it is looked up again."""


class Snapshots:
    """Thread-safe."""

    def __init__(self, ports: Ports, sessions: Sessions) -> None:
        self._ports = ports
        self._sessions = sessions
        self._limits: dict[JobId, float | None] = {}
        """Time limits of jobs that have tasks: they never change."""

    def views(
        self, reader: Reader, sent: Iterable[Sent] = (), *, timed: bool = False
    ) -> list[WorkerView]:
        """Every worker that this plane, or one beside it, has met, with what its tasks hold. `sent`
        is what was sent ahead: without it, the views do not say what more may be. `timed`: with
        the time at which the limit of each task ends it."""
        ahead_there: dict[str, list[int]] = {}
        for one in sent:
            ahead_there.setdefault(one.worker_id, []).append(one.priority)
        self._sessions.learn(reader, self._ports.clock)
        now = self._ports.clock.monotonic()
        live: dict[WorkerId, list[Task]] = {}
        for task in reader.live_tasks():
            live.setdefault(task.worker_id, []).append(task)
        lenders = reader.lenders()
        ends = self._ends(reader, live) if timed else {}
        return [
            self._view(
                reader,
                session,
                live.get(session.worker.id, []),
                lenders,
                ends,
                tuple(ahead_there.get(session.worker.id, ())),
                now,
            )
            for session in self._sessions.all()
        ]

    def of(
        self,
        queue: tuple[Pending, ...],
        shapes: Mapping[ShapeId, Shape],
        workers: Iterable[WorkerView],
        **limits: float,
    ) -> Snapshot:
        """Everything that `place` looks at. `limits`: more of them than the plane's own."""
        workers = tuple(workers)
        settled = {"fleet_settled": self._is_settled(workers)}
        return Snapshot(shapes, queue, workers, settled | limits)

    def note_limit(self, job: Job) -> None:
        """A job is given out: its limit need not be looked up later."""
        if len(self._limits) >= _MOST_LIMITS:
            self._limits.clear()
        self._limits[job.id] = job.spec.get("timeout_seconds")

    def _ends(self, reader: Reader, live: Mapping[WorkerId, list[Task]]) -> dict[str, float | None]:
        """Of each task, when its limit ends it. Of a task that has not begun as if it had when it
        was given out."""
        limits: dict[JobId, float | None] = {}
        ends: dict[str, float | None] = {}
        for task in (task for tasks in live.values() for task in tasks):
            job_id = task.job_id
            if job_id in self._limits:
                limits[job_id] = self._limits[job_id]
            elif job_id not in limits:
                job = reader.job(job_id)
                limits[job_id] = None if job is None else job.spec.get("timeout_seconds")
            limit = limits[job_id]
            since = task.assigned_at if task.started_at is None else task.started_at
            ends[task.id] = None if limit is None else since + limit
        self._limits = limits  # those of jobs that have ended are not needed any more
        return ends

    def _view(
        self,
        reader: Reader,
        session: Session,
        live: list[Task],
        lenders: frozenset[JobId],
        ends: Mapping[str, float | None],
        sent: tuple[int, ...],
        now: float,
    ) -> WorkerView:
        """A job that has submitted others most likely waits for them, so it lends them its cores:
        else a few nested jobs would hold all cores and wait for each other for ever."""
        holding = [task for task in live if task.phase not in AHEAD_PHASES]
        held = [*holding, *_leftovers(reader, session, live)]
        worker, capabilities = session.worker, session.capabilities
        return WorkerView(
            worker_id=worker.id,
            name=worker.name,
            target=worker.target,
            capabilities=capabilities,
            allocations=tuple(
                Allocation(
                    t.id,
                    t.job_id,
                    0.0 if t.job_id in lenders else t.cpu_cores,
                    t.memory_gb,
                    t.gpus,
                    ends.get(t.id),
                )
                for t in held
            ),
            draining=worker.draining,
            offline=not self._sessions.is_online(session, now),
            ahead=(
                ahead.depth(session.pace, self._ports.settings.ahead_seconds)
                if capabilities.takes_ahead
                else 0
            ),
            sent=sent,
        )

    def _is_settled(self, workers: tuple[WorkerView, ...]) -> bool:
        """False while the first worker may still be on its way."""
        since = self._ports.clock.monotonic() - self._sessions.started
        return bool(workers) or since >= self._ports.settings.settle_seconds


def _leftovers(reader: Reader, session: Session, live: list[Task]) -> Iterator[Task]:
    """Tasks that are over for the plane while the worker still has their processes: until it
    says that they are gone, what they held is not free."""
    for task_id in session.held.difference(task.id for task in live):
        task = reader.task(task_id)
        if task is not None and task.state not in LIVE_TASK_STATES:
            yield task
