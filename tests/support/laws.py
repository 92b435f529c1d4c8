"""What must hold in every store at every moment, whatever happened before."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.elements import (
    ARRAY_END,
    CHUNK,
    FRESH,
    LEFT_OUT,
    LIVE,
    RETURNED,
    Grid,
    grid_of,
)
from gpulayer.contracts.records import Event, Job, Task
from gpulayer.contracts.states import (
    LIVE_TASK_STATES,
    TERMINAL_JOB_STATES,
    JobState,
    TaskState,
    may_move,
)
from gpulayer.storage.store import Store
from gpulayer.storage.tx import Reader


class Laws:
    """Compares each look with the one before, so that what must never change is noticed."""

    def __init__(self) -> None:
        self._ended_jobs: dict[str, tuple[object, ...]] = {}
        self._ended_tasks: dict[str, TaskState] = {}
        self._accepted: set[str] = set()

    def forget(self, job_id: str) -> None:
        """A job that a test is about to collect."""
        self._accepted.discard(job_id)

    def check(self, store: Store) -> None:
        with store.read() as reader:
            jobs = reader.jobs()
            tasks = {job.id: reader.tasks(job.id) for job in jobs}
            for job in jobs:
                self._check_job(job, tasks[job.id])
                self._check_story(job, reader.events(job.id))
                check_order(reader, job, tasks[job.id])
                if job.elements is not None:
                    check_array(reader, job, tasks[job.id])
                result = reader.result(job.id, 0 if job.elements is None else ARRAY_END)
                assert (result is not None) == (job.state in TERMINAL_JOB_STATES), job
                assert result is None or result.state == job.state
            assert self._accepted <= {job.id for job in jobs}, "an accepted job is gone"
            self._accepted |= {job.id for job in jobs}
            counted = Counter(job.state for job in jobs)
            assert {s: n for s, n in reader.counts().items() if n} == dict(counted)
            live = [t for own in tasks.values() for t in own if t.state in LIVE_TASK_STATES]
            lenders = {job.origin.get("parent_job") for job in jobs}
            for worker in reader.workers():
                capabilities = WorkerCapabilities.from_json(worker.capabilities)
                own = [t for t in live if t.worker_id == worker.id]
                self._check_room(capabilities, own, lenders)
        fences = [task.fence for own in tasks.values() for task in own]
        assert len(fences) == len(set(fences)), "a fence was given twice"

    def _check_job(self, job: Job, tasks: list[Task]) -> None:
        live = [task for task in tasks if task.state in LIVE_TASK_STATES]
        places = Counter((task.index, task.rank) for task in live)
        assert all(n == 1 for n in places.values()), f"two live fences: {live}"
        if job.elements is not None and job.state is JobState.RUNNING:
            pass  # all that was given out may have come back
        elif job.state in (JobState.SCHEDULED, JobState.RUNNING):
            assert live, f"{job.id} is {job.state} and nobody has it"
            assert job.elements is not None or {task.attempt for task in live} == {job.attempt}
        else:
            assert not live, f"{job.id} is {job.state} and has live tasks {live}"
        assert job.attempt <= job.max_attempts, job
        ended = (job.state, job.reason, job.exit_code, job.finished_at)
        if job.state in TERMINAL_JOB_STATES:
            assert self._ended_jobs.setdefault(job.id, ended) == ended, "a terminal job changed"
        else:
            assert job.id not in self._ended_jobs, "a terminal job lives again"
        for task in tasks:
            if task.state not in LIVE_TASK_STATES:
                assert self._ended_tasks.setdefault(task.id, task.state) == task.state
            else:
                assert task.id not in self._ended_tasks, "an ended task lives again"

    def _check_story(self, job: Job, events: list[Event]) -> None:
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        states = [JobState(event.state) for event in events]
        assert states[0] is JobState.QUEUED
        assert states[-1] == job.state
        for before, after in pairwise(states):
            assert before == after or may_move(before, after), (job.id, before, after)

    def _check_room(
        self, capabilities: WorkerCapabilities, tasks: list[Task], lenders: set[object]
    ) -> None:
        """Cores alone may be lent, by a job to those that it has submitted."""
        counted = [task.cpu_cores for task in tasks if task.job_id not in lenders]
        assert sum(counted) <= capabilities.cpu_cores + 1e-9
        if capabilities.memory_gb is not None:
            assert sum(task.memory_gb for task in tasks) <= capabilities.memory_gb + 1e-9
        gpus = Counter(uuid for task in tasks for uuid in task.gpus)
        assert all(n == 1 for n in gpus.values()), f"a GPU was given twice: {gpus}"
        assert set(gpus) <= {gpu.uuid for gpu in capabilities.gpus or ()}


def indices_of(grid: Grid, task: Task) -> range:
    """The elements that a task has."""
    return range(task.index, (task.index if task.last is None else task.last) + 1, grid.step)


def check_order(reader: Reader, job: Job, tasks: list[Task]) -> None:
    """Nothing of a job is given out before all that it comes after has ended as it must."""
    awaits = reader.awaits(job.id)
    assert bool(awaits) or not job.is_held, f"{job.id} waits for nothing"
    assert job.is_held or not awaits or job.state in TERMINAL_JOB_STATES, f"{job.id} was let go"
    for wish in job.spec.get("after", ()):
        before = reader.job(wish["job"])
        assert before is not None
        if tasks:
            assert before.finished_at is not None, f"{job.id} did not wait for {before.id}"
            assert wish["when"] == "any" or before.state is JobState.SUCCEEDED, (job, before)


def check_array(reader: Reader, job: Job, tasks: list[Task]) -> None:
    """The kept counts are those of the elements' states, of their tasks and of their results."""
    progress = reader.progress(job.id)
    assert progress is not None
    grid, letters = grid_of(job.spec), dict[int, str]()
    for chunk in reader.chunks(job.id):
        for at, letter in enumerate(chunk.states):
            letters[grid.index(chunk.chunk * CHUNK + at)] = letter
        waiting = {int(at) for at in chunk.again if chunk.states[int(at)] == RETURNED}
        assert waiting == {at for at, letter in enumerate(chunk.states) if letter == RETURNED}
        assert (chunk.due is not None) == bool(waiting)
    indices = [grid.index(position) for position in range(grid.size)]
    states = Counter(letters.get(index, FRESH) for index in indices)
    left_out = states.pop(LEFT_OUT, 0)
    assert grid.size - left_out == job.elements
    assert progress.live == states[LIVE]
    assert (progress.succeeded, progress.failed) == (states["s"], states["f"])
    assert progress.timed_out == states["t"]
    unbegun = states[FRESH] + states[RETURNED]
    assert progress.waiting in (0, unbegun), "no more is given out of an array that is to end"
    assert progress.cancelled == states["c"] + unbegun - progress.waiting
    assert not progress.waiting or progress.returned == states[RETURNED]
    is_over = job.state in TERMINAL_JOB_STATES
    assert is_over == (progress.live + progress.waiting == 0), (job.state, progress)
    alive = [task for task in tasks if task.state in LIVE_TASK_STATES]
    # A task runs one element at a time, however many it holds.
    assert progress.max_parallel is None or len(alive) <= progress.max_parallel
    live = [index for task in alive for index in indices_of(grid, task)]
    assert len(set(live)) == len(live), "an element is in two tasks that live"
    # What a run has done may be told while it goes on, but for its last one.
    assert {index for index, letter in letters.items() if letter == LIVE} <= set(live)
    assert {letters[index] for index in live} <= {LIVE, "s"}
    assert all(letters[task.index if task.last is None else task.last] == LIVE for task in alive)
    ended = [result for result in reader.results(job.id) if result.index != ARRAY_END]
    names = {"s": "succeeded", "f": "failed", "t": "timed_out", "c": "cancelled"}
    told = {index: names[letter] for index, letter in letters.items() if letter in names}
    assert {result.index: str(result.state) for result in ended} == told
