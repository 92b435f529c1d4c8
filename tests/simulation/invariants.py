"""What must hold after every event that changed something, and what must hold in the end.

After each commit only the jobs that changed are looked at closely; the whole is compared with the
laws of `tests.support.laws` at the end. Live processes are watched by `machine.Physics`.
"""

from __future__ import annotations

from collections import Counter

from gpulayer.contracts.elements import ARRAY_END
from gpulayer.contracts.records import AHEAD_PHASES, Job, Progress, Task
from gpulayer.contracts.states import (
    LIVE_TASK_STATES,
    TERMINAL_JOB_STATES,
    JobState,
    TaskState,
    may_move,
)
from gpulayer.control_plane.lifecycle.gangs import nodes_of
from tests.simulation.engine import Engine
from tests.simulation.machine import Broken, Physics
from tests.simulation.plane import SETTINGS, PlaneHost
from tests.simulation.saving import Kept
from tests.simulation.worker import Worker
from tests.simulation.workload import Clients
from tests.support.laws import Laws, check_array, check_order

OVERSTAY_SECONDS = 3 * SETTINGS.lease_seconds
"""How long a process may outlive the end of its job, while its worker can be reached."""


class Invariants:
    def __init__(
        self,
        engine: Engine,
        host: PlaneHost,
        clients: Clients,
        workers: list[Worker],
        physics: Physics,
    ) -> None:
        self._engine = engine
        self._host = host
        self._clients = clients
        self._workers = workers
        self._physics = physics
        self._seen_commits = -1
        self._versions: dict[str, int] = {}
        self._states: dict[str, JobState] = {}
        self._tasks: dict[str, TaskState] = {}
        self._known: dict[str, Task] = {}
        self._highest_fence = 0
        self._events: dict[str, int] = {}
        self._newest: dict[tuple[str, int, int], int] = {}
        """(job, rank) -> the highest fence of its tasks."""
        self._most_live: Counter[str] = Counter()
        """Tasks of an array that lived at one time."""
        self._kept = Kept()
        self._draining: frozenset[str] = frozenset()
        """Workers that drain."""
        self._drained: frozenset[str] = frozenset()
        """Those among them that did at the look before."""

    def look(self) -> None:
        """After an event. Costs nothing unless something was committed."""
        for task_id in self._host.logs.take_grown():
            self._grew(task_id)
        if self._host.commits == self._seen_commits or self._host.store is None:
            return
        self._seen_commits = self._host.commits
        with self._host.store.read() as reader:
            jobs = reader.jobs()
            draining = frozenset(w.id for w in reader.workers() if w.draining)
            for job in jobs:
                if "checkpoint" in job.spec:
                    newest = self._newest.get((job.id, 0, 0), 0)
                    self._kept.look(job, reader.checkpoints(job.id), newest)
            self._drained, self._draining = self._draining & draining, draining
            for job in jobs:
                # The row of an array is written at its own moves alone.
                if self._versions.get(job.id) != job.version or job.elements is not None:
                    self._versions[job.id] = job.version
                    events = reader.events(job.id, self._events.get(job.id, 0))
                    self._job(job, [(event.seq, event.state) for event in events])
                    tasks = reader.tasks(job.id)
                    check_order(reader, job, tasks)
                    self._placed(job, [task for task in tasks if task.id not in self._tasks])
                    for task in tasks:
                        self._task(task)
                    if job.elements is not None:
                        _parallel(reader.progress(job.id), tasks)
                        check_array(reader, job, tasks)
                        self._failed(reader.progress(job.id), tasks)
                        ended = reader.results(job.id)
                        told = {r.index for r in ended if r.state is JobState.SUCCEEDED}
                        ran = {index for of, index in self._physics.runs if of == job.id}
                        unseen = told - ran - {ARRAY_END}
                        _hold(not unseen, f"{job.id} succeeded and never ran: {unseen}")
                    self._alive(job, [task for task in tasks if task.state in LIVE_TASK_STATES])
                    result = reader.result(job.id, 0 if job.elements is None else ARRAY_END)
                    _hold(
                        (result is not None) == (job.state in TERMINAL_JOB_STATES),
                        f"{job.id} is {job.state} and its result is {result}",
                    )
            live = reader.live_tasks()
            for task in live:
                gone = task.worker_id in self._host.revoked
                _hold(not gone, f"{task.worker_id} was revoked and has {task}")
            self._fits(live)
            self._marked(live)
        known = {job.id for job in jobs}
        for job_id in self._clients.accepted.values():
            _hold(job_id in known, f"the accepted job {job_id} is gone")
        keys = Counter(job.idempotency_key for job in jobs)
        _hold(all(n == 1 for n in keys.values()), f"two jobs of one key: {keys}")

    def end(self) -> None:
        """The world has been whole for a while: everything is over, and nothing is left."""
        store = self._host.store
        _hold(store is not None, "there is no plane")
        assert store is not None
        with store.read() as reader:
            jobs = reader.jobs()
            for job in jobs:
                _hold(job.state in TERMINAL_JOB_STATES, f"{job.id} never ended: {job}")
                for task in reader.tasks(job.id):
                    self._log(task)
        _hold(not self._clients.waiting, "a submission was never answered")
        _hold(not self._physics.alive, f"processes are left: {self._physics.alive}")
        for worker in self._workers:
            if worker.is_gone:
                continue
            _hold(worker.agent is not None and not len(worker.agent.slots), f"{worker.name} holds")
            _hold(not worker.disk, f"the supervisor of {worker.name} was not told to forget")
        for job in jobs:
            if job.state is JobState.SUCCEEDED:
                step = job.spec.get("array", {}).get("step", 1)
                indices = range(0, (job.elements or 1) * step, step)
                runs = [self._physics.runs.get((job.id, index), 0) for index in indices]
                _hold(all(runs), f"{job.id} succeeded and never ran: {runs}")
        Laws().check(store)

    def overstaying(self, since: float) -> None:
        """No process of an ended job, once the world has been whole since `since`."""
        store = self._host.store
        if store is None or self._engine.now < since + OVERSTAY_SECONDS:
            return
        with store.read() as reader:
            for process in self._physics.alive.values():
                task = reader.task(process.task_id)  # type: ignore[arg-type]
                _hold(task is not None and task.state in LIVE_TASK_STATES, f"{process} lives on")

    def _job(self, job: Job, events: list[tuple[int, str]]) -> None:
        before = self._states.get(job.id)
        first = self._events.get(job.id, 0) + 1
        _hold(
            [seq for seq, _ in events] == list(range(first, first + len(events))),
            f"the story of {job.id} has a gap",
        )
        state = before
        for _, name in events:
            after = JobState(name)
            legal = state is None or state == after or may_move(state, after)
            _hold(legal, f"{job.id} moved from {state} to {after}")
            state = after
        _hold(state == job.state, f"{job.id} is {job.state}; its story says {state}")
        _hold(job.attempt <= job.max_attempts, f"{job.id} has attempt {job.attempt}")
        self._states[job.id] = job.state
        self._events[job.id] = first + len(events) - 1

    def _failed(self, progress: Progress | None, tasks: list[Task]) -> None:
        """Beyond the failures that an array may have, each task that lived then may have one."""
        if progress is None or progress.max_failures is None:
            return
        live = sum(task.state in LIVE_TASK_STATES for task in tasks)
        most = self._most_live[progress.job_id] = max(self._most_live[progress.job_id], live)
        bad = progress.failed + progress.timed_out
        _hold(bad <= progress.max_failures + max(1, most), f"{bad} failures of {progress}")

    def _placed(self, job: Job, new: list[Task]) -> None:
        """A gang all or nothing; nothing on a worker that drains."""
        ranks = sorted(task.rank for task in new)
        whole = list(range(nodes_of(job)))
        is_whole = not new or ranks == whole or job.elements is not None
        _hold(is_whole, f"{job.id} of {len(whole)} nodes got {new}")
        for task in new:
            _hold(task.worker_id not in self._drained, f"{task.worker_id} drains and got {task}")
            key = (task.job_id, task.index, task.rank)
            self._newest[key] = max(task.fence, self._newest.get(key, 0))

    def _grew(self, task_id: str) -> None:
        """A job's log grows at its end alone: a later attempt closes those before it."""
        known = self._known.get(task_id)
        if known is not None:
            newest = self._newest[known.job_id, known.index, known.rank]
            _hold(newest == known.fence, f"the log of {task_id} grew after a later attempt began")

    def _marked(self, live: list[Task]) -> None:
        """`disconnected` is taken off with the first word of a worker that still has the task."""
        plane = self._host.plane
        for task in live:
            if task.disconnected_since is None or plane is None:
                continue
            silent = plane._sessions.silent_seconds(task.worker_id, self._host.clock.monotonic())
            has = plane._sessions.keeps(task.worker_id, task.id)
            _hold(not has or silent > 0, f"{task.worker_id} was heard, and {task} is disconnected")

    def _task(self, task: Task) -> None:
        before = self._tasks.get(task.id)
        if before is None:
            _hold(task.fence not in self._given(), f"the fence {task.fence} was given twice")
        elif before != task.state:
            _hold(may_move(before, task.state), f"{task.id} moved from {before} to {task.state}")
        self._tasks[task.id] = task.state
        self._known[task.id] = task

    def _given(self) -> set[int]:
        return {int(task_id[1:]) for task_id in self._tasks}

    def _alive(self, job: Job, live: list[Task]) -> None:
        wants = job.state in (JobState.SCHEDULED, JobState.RUNNING)
        if job.elements is None or job.state is not JobState.RUNNING:
            _hold(bool(live) == wants, f"{job.id} is {job.state} with the live tasks {live}")
        if job.elements is None:
            _hold({t.attempt for t in live} <= {job.attempt}, f"{job.id} lives in two attempts")
        places = Counter((task.index, task.rank) for task in live)
        _hold(all(n == 1 for n in places.values()), f"two live tasks for one place of {job.id}")

    def _fits(self, live: list[Task]) -> None:
        for name, room in {w.worker_id: w.capabilities for w in self._workers}.items():
            mine = [t for t in live if t.worker_id == name and self._holds(t)]
            cores = sum(task.cpu_cores for task in mine)
            _hold(cores <= room.cpu_cores + 1e-9, f"{name} has {cores} cores given out")
            gpus = Counter(gpu for task in mine for gpu in task.gpus)
            _hold(all(n == 1 for n in gpus.values()), f"a GPU was given twice: {gpus}")

    def _holds(self, task: Task) -> bool:
        """Not what was sent ahead, and not what has ended there, or will never begin: another may
        have followed it before that is told."""
        is_dead = task.id in self._physics.started and task.id not in self._physics.alive
        agents = [w.agent for w in self._workers if w.worker_id == task.worker_id and w.agent]
        slots = [slot for agent in agents if (slot := agent.slots.get(task.id)) is not None]
        is_over = is_dead or any(slot.phase == "exited" for slot in slots)
        return task.phase not in AHEAD_PHASES and not is_over

    def _log(self, task: Task) -> None:
        here = bytes(self._host.logs.segments.get(task.id, b""))
        truth = bytes(self._worker(task).truth.get(task.id, b""))
        _hold(truth.startswith(here), f"the log of {task.id} is not what it printed")
        if task.log_complete and task.state is not TaskState.LOST:
            _hold(here == truth, f"the log of {task.id} is called complete and is not")
        ended = task.state in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.TIMED_OUT)
        is_told = task.exit_code is not None  # else the plane wrote it, having heard nothing
        if ended and is_told and task.worker_id not in self._host.revoked:
            _hold(task.log_complete, f"the log of {task.id} never became complete")

    def _worker(self, task: Task) -> Worker:
        """Where it ran, or would have: its worker may have been on two machines."""
        named = [worker for worker in self._workers if worker.worker_id == task.worker_id]
        return next((worker for worker in named if task.id in worker.truth), named[0])


def _parallel(progress: Progress | None, tasks: list[Task]) -> None:
    """A task runs one element at a time: so many elements run at most."""
    live = [task for task in tasks if task.state in LIVE_TASK_STATES]
    most = progress.max_parallel if progress is not None else None
    _hold(most is None or len(live) <= most, f"more than {most} tasks live: {live}")


def _hold(claim: bool, otherwise: str) -> None:
    if not claim:
        raise Broken(otherwise)
