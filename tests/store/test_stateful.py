"""Random commands, batched at random, against a model of dictionaries: store and model agree, and
the laws hold after every step."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpulayer.contracts.changes import Changes, JobUpdate, NewEvent, TaskUpdate
from gpulayer.contracts.ids import JobId, ShapeId, TaskId
from gpulayer.contracts.records import Job, Result, Task
from gpulayer.contracts.states import (
    LIVE_TASK_STATES,
    TERMINAL_JOB_STATES,
    TERMINAL_TASK_STATES,
    JobState,
    TaskState,
    may_move,
)
from gpulayer.errors import GPULayerError
from gpulayer.storage import Store, Tx
from tests.support.postgres import PostgresServer
from tests.support.records import a_job, a_task

NAMES = st.sampled_from(["a-1", "a-2", "b-1", "b-2", "c-1"])
JOB_STATES = st.sampled_from(JobState)
TASK_STATES = st.sampled_from(TaskState)
AS_IT_IS = st.none()
NTH = st.integers(0, 4)


with_jobs = precondition(lambda self: bool(self.model.jobs))
with_tasks = precondition(lambda self: bool(self.model.tasks))


@dataclass
class Model:
    jobs: dict[str, Job] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)


class StoreAgainstModel(RuleBasedStateMachine):
    """In memory or on disk, with or without the writer's thread, closed and opened at will."""

    server: PostgresServer | None = None
    """Set: in a database of it."""

    @initialize(inline=st.booleans(), on_disk=st.booleans())
    def begin(self, inline: bool, on_disk: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "db.sqlite") if on_disk else ":memory:"
        if self.server is not None:
            self.path = self.server.shared()
        self.inline = inline
        self.store = Store(self.path, inline=inline)
        self.model = Model()
        self.clock = itertools.count(1)
        self.fences: list[int] = []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            assert self.store.check() == ()
            self.store.close()
            self.folder.cleanup()

    @rule(name=NAMES, priority=st.integers(-2, 2), shape=st.sampled_from(["s", "t"]))
    def submit(self, name: str, priority: int, shape: str) -> None:
        job = a_job(name, priority=priority, shape_id=ShapeId(shape), idempotency_key=f"key-{name}")
        told = NewEvent(job.id, "submitted", "queued", "submitted", 1.0)

        def run(tx: Tx) -> Job | None:
            assert job.idempotency_key is not None
            if tx.job_by_key(job.idempotency_key) is None:
                assert tx.apply(Changes(jobs=(job,), events=(told,)))
                return tx.job(job.id)
            return None

        stored = self.store.write(run).result(timeout=30)
        assert (stored is None) == (name in self.model.jobs)
        if stored is not None:
            assert replace(stored, seq=0) == job
            assert all(stored.seq > other.seq for other in self.model.jobs.values())
            self.model.jobs[name] = stored
            self.model.events[name] = 1

    @with_jobs
    @rule(nth=NTH, expect=AS_IT_IS | JOB_STATES, after=JOB_STATES, stale=st.integers(-1, 0))
    def move_job(self, nth: int, expect: JobState | None, after: JobState, stale: int) -> None:
        known = self.job(nth)
        name, version = known.id, known.version + stale
        expect = expect or known.state
        ended = float(next(self.clock)) if after in TERMINAL_JOB_STATES else None
        values = {"state": after, "finished_at": ended, "message": f"to {after}"}
        changes = Changes(
            job_updates=(JobUpdate(JobId(name), expect, version, values),),
            events=(NewEvent(JobId(name), "moved", after, "user", 1.0),),
        )
        holds = known.state is expect and stale == 0
        if holds and expect is not after and not may_move(expect, after):
            self.refused(changes)
        else:
            assert self.apply(changes) == holds
            if holds:
                self.model.jobs[name] = replace(
                    known,
                    state=after,
                    finished_at=ended,
                    message=f"to {after}",
                    version=version + 1,
                )
                self.model.events[name] += 1

    @with_jobs
    @rule(nth=NTH, rank=st.integers(0, 1))
    def assign(self, nth: int, rank: int) -> None:
        name = self.job(nth).id
        fence = self.store.write(lambda tx: tx.next_fence()).result(timeout=30)
        assert fence > max(self.fences, default=0)
        self.fences.append(fence)
        task = a_task(fence, name, rank=rank, gpus=("GPU-a",))
        live = any(
            t.job_id == name and t.rank == rank and t.state in LIVE_TASK_STATES
            for t in self.model.tasks.values()
        )
        if live:
            self.refused(Changes(tasks=(task,)))
        else:
            assert self.apply(Changes(tasks=(task,)))
            self.model.tasks[task.id] = task

    @with_tasks
    @rule(
        nth=NTH,
        expect=AS_IT_IS | TASK_STATES,
        after=TASK_STATES,
        stale=st.integers(-1, 0),
    )
    def move_task(self, nth: int, expect: TaskState | None, after: TaskState, stale: int) -> None:
        """A task and its job in one change."""
        known = list(self.model.tasks.values())[nth % len(self.model.tasks)]
        job = self.model.jobs[known.job_id]
        expect = expect or known.state
        ended = float(next(self.clock)) if after in TERMINAL_TASK_STATES else None
        values = {"state": after, "finished_at": ended, "phase": "moved"}
        touch = JobUpdate(job.id, job.state, job.version + stale, {"message": "touched"})
        changes = Changes(
            task_updates=(TaskUpdate(known.id, expect, values),), job_updates=(touch,)
        )
        holds = known.state is expect and stale == 0
        if holds and expect is not after and not may_move(expect, after):
            self.refused(changes)
            return
        assert self.apply(changes) == holds
        if holds:
            self.model.tasks[known.id] = replace(
                known, state=after, finished_at=ended, phase="moved"
            )
            self.model.jobs[job.id] = replace(job, message="touched", version=job.version + 1)

    @with_jobs
    @rule(nth=NTH, code=st.integers(0, 3))
    def record(self, nth: int, code: int) -> None:
        name = self.job(nth).id
        result = Result(JobId(name), 0, 1, JobState.SUCCEEDED, code)
        if name in self.model.results:
            self.refused(Changes(results=(result,)))
        else:
            assert self.apply(Changes(results=(result,)))
            self.model.results[name] = result

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        known = self.model.jobs.get(name)
        ended = known is not None and known.state in TERMINAL_JOB_STATES
        assert self.store.write(lambda tx: tx.delete_job(JobId(name))).result(timeout=30) == ended
        if ended:
            for table in (self.model.jobs, self.model.events, self.model.results):
                table.pop(name, None)
            gone = [t.id for t in self.model.tasks.values() if t.job_id == name]
            for task_id in gone:
                del self.model.tasks[task_id]

    @rule(names=st.lists(NAMES, min_size=2, max_size=6), bad=st.integers(0, 6))
    def many_at_once(self, names: list[str], bad: int) -> None:
        """Events of several jobs in one batch, with one command in it that fails after writing."""
        busy, go = threading.Event(), threading.Event()
        if not self.inline:
            self.store.write(lambda tx: (busy.set(), go.wait(30)))
            assert busy.wait(30)

        def tell(tx: Tx, name: str) -> None:
            assert tx.apply(Changes(events=(NewEvent(JobId(name), "told", "-", "-", 1.0),)))

        def fail(tx: Tx) -> None:
            tx.set_meta("never", "written")
            raise KeyError("bad")

        answers = []
        for position, name in enumerate(names):
            if position == bad:
                answers.append((None, self.store.write(fail)))
            answers.append((name, self.store.write(lambda tx, n=name: tell(tx, n))))
        go.set()
        for name, answer in answers:
            error = answer.exception(timeout=30)
            if name is None:
                assert isinstance(error, KeyError)
            elif name in self.model.jobs:
                assert error is None
                self.model.events[name] += 1
            else:
                assert isinstance(error, GPULayerError)

    @rule()
    def reopen(self) -> None:
        if self.path != ":memory:":
            self.store.close()
            self.store = Store(self.path, inline=self.inline)

    @invariant()
    def store_and_model_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        with self.store.read() as reader:
            jobs = reader.jobs()
            assert {job.id: job for job in jobs} == self.model.jobs
            assert [job.seq for job in jobs] == sorted((j.seq for j in jobs), reverse=True)
            for name in self.model.jobs:
                numbers = [event.seq for event in reader.events(JobId(name))]
                assert numbers == list(range(1, self.model.events[name] + 1))
                assert reader.result(JobId(name)) == self.model.results.get(name)
            live = {t.id for t in self.model.tasks.values() if t.state in LIVE_TASK_STATES}
            assert {task.id for task in reader.live_tasks()} == live
            for task_id, task in self.model.tasks.items():
                assert reader.task(TaskId(task_id)) == task
            states = Counter(job.state for job in jobs)
            assert reader.counts() == {state: states[state] for state in JobState}
            queued = [job for job in jobs if job.state is JobState.QUEUED]
            heads = [head.job_id for head in reader.ready_heads(1e9, per_shape=10)]
            assert heads == [j.id for j in sorted(queued, key=lambda j: (-j.priority, j.seq))]
            assert reader.meta("never") is None

    def job(self, nth: int) -> Job:
        return list(self.model.jobs.values())[nth % len(self.model.jobs)]

    def apply(self, changes: Changes) -> bool:
        return self.store.write(lambda tx: tx.apply(changes)).result(timeout=30)

    def refused(self, changes: Changes) -> None:
        error = self.store.write(lambda tx: tx.apply(changes)).exception(timeout=30)
        assert isinstance(error, GPULayerError)


class OnPostgres(StoreAgainstModel):
    pass


@pytest.fixture(scope="class", autouse=True)
def _server(postgres: PostgresServer) -> None:
    OnPostgres.server = postgres


TestOnPostgres = OnPostgres.TestCase
TestOnPostgres.settings = settings(
    max_examples=8,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestStoreAgainstModel = StoreAgainstModel.TestCase
TestStoreAgainstModel.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
