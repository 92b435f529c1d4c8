"""A whole plane in memory that does only what a test tells it to, in the words of the domain.

    worker = env.worker(gpus=2)
    job = env.submit(gpus=1, retries=1)
    env.run_pass()
    worker.acquire()
    worker.start(job)
    worker.finish(job, code=3)
    env.advance(5)

`check` compares everything with the laws of `tests.support.laws`; leaving the `with` does so too.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.contracts import runs
from gpulayer.contracts.capabilities import GpuDevice, WorkerCapabilities
from gpulayer.contracts.ids import JobId
from gpulayer.contracts.messages import (
    Acquire,
    Acquired,
    Assignment,
    Exit,
    Held,
    Register,
    Registered,
    Report,
    ReportReply,
    TaskReport,
)
from gpulayer.contracts.records import Job, Progress, Result, Task
from gpulayer.contracts.states import LIVE_TASK_STATES
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.settings import Settings
from gpulayer.control_plane.submission import Submission
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.storage.engine import News
from gpulayer.storage.logs import LogFolder
from gpulayer.storage.store import Store
from gpulayer.storage.tx import Tx
from tests.support.clocks import FakeClock, SeededIds
from tests.support.laws import Laws

_EXITS = {"succeeded": "exited", "failed": "exited", "cancelled": "user", "timed_out": "timeout"}


class EnvWorker:
    """What an agent would say, said by hand. It is honest unless the test makes it lie."""

    def __init__(self, env: Env, name: str, capabilities: WorkerCapabilities) -> None:
        self.env = env
        self.name = name
        self.capabilities = capabilities
        self.nonce = f"{name}-1"
        self.place = f"{name} at home"
        self.incarnation = 0
        self.seq = 0
        self.acquires = 0
        self.held: dict[str, Held] = {}
        self.assignments: dict[str, Assignment] = {}
        self.endings: dict[str, TaskReport] = {}
        """Every end it has told or tried to tell; said again until it is recorded."""
        self.reply = ReportReply()
        self.last_report: Report | None = None

    def register(self, *, restarted: bool = False, keeps: bool = True) -> Registered:
        """`restarted`: a new process; with `keeps` False it finds nothing of the earlier one."""
        if restarted:
            self.nonce, self.seq = self.nonce + "'", 0
            if not keeps:
                self.held.clear()
        self.seq += 1
        registered = self.env.plane.register(
            Register(
                self.name,
                self.name,
                self.nonce,
                "local",
                self.capabilities.to_json(),
                tuple(self.held.values()),
                self.seq,
                self.place,
            )
        ).result(0)
        self.incarnation = registered.incarnation
        for task_id in (*registered.kill, *registered.forget):
            self.held.pop(task_id, None)
        return registered

    def acquire(self, *, lost: bool = False) -> Acquired:
        """Take what there is. `lost`: the answer never arrives."""
        self.acquires += 1
        message = Acquire(self.name, self.incarnation, seq=self.acquires)
        acquired = self.env.plane.acquire_now(message).result(0)
        for assignment in () if lost else acquired.assignments:
            self.assignments[assignment.task_id] = assignment
            self.held.setdefault(
                assignment.task_id, Held(assignment.task_id, assignment.fence, "staging")
            )
        return acquired

    def report(self, *news: TaskReport, **changed: Any) -> ReportReply:
        """A heartbeat with the inventory, and news if there are any."""
        self.seq += 1
        self.last_report = Report(
            self.name, self.incarnation, self.seq, tuple(self.held.values()), news, **changed
        )
        return self.say(self.last_report)

    def say(self, report: Report) -> ReportReply:
        """Send exactly this."""
        self.reply = self.env.plane.report(report).result(0)
        for task_id in (*self.reply.recorded, *self.reply.kill):
            self.held.pop(task_id, None)
        return self.reply

    def start(self, what: Job | Task | str) -> ReportReply:
        """The workload's exec."""
        held = self._held(what)
        self.held[held.task_id] = Held(held.task_id, held.fence, "running")
        started = self.env.clock.now()
        return self.report(TaskReport(held.task_id, held.fence, "running", started))

    def finish(self, what: Job | Task | str, code: int = 0, **ending: Any) -> ReportReply:
        """Its end. `outcome`, `reason` and other fields of `Exit` may be given; `log`: bytes."""
        held = self._held(what)
        return self.report(self.ending(held, code, **ending))

    def ending(self, held: Held, code: int = 0, log: bytes = b"", **ending: Any) -> TaskReport:
        """The news of an end, not said yet. A run that succeeded did all of its elements."""
        outcome = ending.pop("outcome", "failed" if code else "succeeded")
        reason = ending.pop("reason", _EXITS.get(outcome, "worker_lost"))
        began = ending.pop("started_at", self.env.clock.now())
        self.held[held.task_id] = Held(held.task_id, held.fence, "exited")
        work = self.assignments.get(held.task_id)
        if work is not None and work.run is not None and outcome == "succeeded":
            done = [runs.plain(n, began, began, None) for n, _ in runs.specs(work.run)]
            ending.setdefault("elements", tuple(done))
        news = self.endings[held.task_id] = TaskReport(
            held.task_id,
            held.fence,
            "exited",
            began,
            Exit(
                outcome, reason, exit_code=code, started_at=began, **{"ended_at": began, **ending}
            ),
            log_size=len(log),
            log=base64.b64encode(log).decode() if log else None,
        )
        return news

    def task(self, what: Job | Task | str) -> Held:
        """Its line of the inventory."""
        return self._held(what)

    def _held(self, what: Job | Task | str) -> Held:
        if isinstance(what, Task):
            return self.held[what.id]
        job_id = what.id if isinstance(what, Job) else what
        for held in reversed(self.held.values()):
            assignment = self.assignments.get(held.task_id)
            if assignment is not None and assignment.job_id == job_id:
                return held
        raise AssertionError(f"{self.name} has no task of {job_id}: {list(self.held)}")


class Env:
    """See the module. `eager`: passes happen by themselves, as in a running plane. `address`: of
    the database; `beside`: a plane whose clock and folder it shares, and `home` its place."""

    def __init__(
        self,
        *,
        eager: bool = False,
        seed: int = 0,
        address: str = ":memory:",
        beside: Env | None = None,
        home: str = "",
        **settings: Any,
    ) -> None:
        self.clock = FakeClock() if beside is None else beside.clock
        self.ids = SeededIds(seed)
        self.folder = tempfile.mkdtemp(prefix="gpulayer-env-") if beside is None else beside.folder
        os.makedirs(os.path.join(self.folder, "logs"), exist_ok=True)
        self.store = Store(address, inline=True, home=home)
        self.settings = Settings(
            dispatches_at_once=eager, plane=self.store.plane, home=home, **settings
        )
        self.news: News | None = None
        self.logs = LogFolder(os.path.join(self.folder, "logs"))
        self.artifacts = LocalArtifacts(os.path.join(self.folder, "artifacts"))
        self.laws = Laws()
        self.workers: dict[str, EnvWorker] = {}
        self.plane: ControlPlane
        self.restart_plane()

    def restart_plane(self) -> None:
        """All memory of the plane is lost; the store stays."""
        wakeups = Wakeups()
        self.plane = ControlPlane(
            self.store,
            self.clock,
            self.ids,
            wakeups,
            self.logs,
            self.artifacts,
            self.settings,
        )
        if self.news is not None:
            self.news.close()
        self.news = self.store.open_news(self.plane.hear)
        if self.news is not None:
            wakeups.relay = self.news.tell

    def worker(
        self,
        name: str = "w1",
        *,
        cores: float = 4,
        memory_gb: float = 16,
        gpus: int = 0,
        **more: Any,
    ) -> EnvWorker:
        """A registered worker with whole GPUs of 80 GB."""
        devices = tuple(
            GpuDevice(f"GPU-{name}-{n}", n, "nvidia", "H100", "h100", 80.0, "dedicated", "9.0")
            for n in range(gpus)
        )
        capabilities = WorkerCapabilities(
            name, "linux", "x86_64", cores, memory_gb, 100.0, gpus=devices, **more
        )
        worker = self.workers[name] = EnvWorker(self, name, capabilities)
        worker.register()
        return worker

    @property
    def digests_in_use(self) -> frozenset[str]:
        """Artifacts that no collection may take."""
        with self.store.read() as reader:
            return frozenset(reader.digests_in_use())

    def submit(
        self,
        *argv: str,
        name: str = "job",
        gpus: int = 0,
        cores: float = 1,
        retries: int = 0,
        retry_on: tuple[str, ...] = ("worker_lost",),
        key: str | None = None,
        origin: Mapping[str, Any] | None = None,
        envelope_id: str | None = None,
        placement: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> JobId:
        body = self.spec(
            *argv,
            name=name,
            gpus=gpus,
            cores=cores,
            retries=retries,
            retry_on=retry_on,
            placement=placement,
            **spec,
        )
        asked = Submission(body, origin or {}, key, envelope_id)
        return self.plane.submit([asked]).result(0)[0].id

    def spec(
        self,
        *argv: str,
        name: str = "job",
        gpus: int = 0,
        cores: float = 1,
        retries: int = 0,
        retry_on: tuple[str, ...] = ("worker_lost",),
        placement: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:
        """A spec with defaults."""
        resources: dict[str, Any] = {"cpu_cores": float(cores)}
        if gpus:
            resources |= {"accelerator": "cuda", "gpu_count": gpus}
        body = {
            "name": name,
            "workload": {"kind": "command", "command": list(argv) or ["true"]},
            "resources": resources,
            "placement": dict(placement or {}),
        }
        if retries or retry_on != ("worker_lost",):
            body["retry"] = {"max_attempts": retries + 1, "retry_on": list(retry_on)}
        return body | spec

    def run_pass(self) -> int:
        """One scheduling pass; how many jobs it moved."""
        return self.plane.dispatch().result(0).moved

    def reconcile(self) -> set[str]:
        return self.plane.reconcile().result(0)

    def advance(self, seconds: float, *, step: float = 1.0) -> None:
        """Let time go by, with the plane's tick."""
        while seconds > 0:
            self.clock.advance(min(step, seconds))
            seconds -= step
            self.reconcile()

    def run(self, worker: EnvWorker, job: JobId, code: int = 0, **ending: Any) -> Job:
        """Place, acquire, start and finish it."""
        self.run_pass()
        worker.acquire()
        worker.start(job)
        worker.finish(job, code, **ending)
        return self.job(job)

    def job(self, job_id: str) -> Job:
        with self.store.read() as reader:
            job = reader.job(JobId(job_id))
        assert job is not None
        return job

    def result(self, job_id: str, index: int = 0) -> Result | None:
        """What is recorded of its end."""
        with self.store.read() as reader:
            return reader.result(JobId(job_id), index)

    def state(self, job_id: str) -> str:
        return str(self.job(job_id).state)

    def progress(self, job_id: str) -> Progress:
        """Counts of an array."""
        with self.store.read() as reader:
            found = reader.progress(JobId(job_id))
        assert found is not None
        return found

    def element(self, job_id: str, index: int) -> Task:
        """The newest task of an element."""
        with self.store.read() as reader:
            return reader.tasks_of_element(JobId(job_id), index)[-1]

    def tasks(self, job_id: str) -> list[Task]:
        with self.store.read() as reader:
            return reader.tasks(JobId(job_id))

    def live_task(self, job_id: str) -> Task:
        (task,) = [t for t in self.tasks(job_id) if t.state in LIVE_TASK_STATES]
        return task

    def story(self, job_id: str) -> list[str]:
        """Kinds of its events."""
        with self.store.read() as reader:
            return [event.kind for event in reader.events(JobId(job_id))]

    def rows_written(self) -> int:
        """A number that grows with every row that is written."""

        def ask(tx: Tx) -> int:
            return int(tx._execute("SELECT total_changes()", ()).fetchone()[0])

        return self.store.write(ask).result(0)

    def check(self) -> None:
        self.laws.check(self.store)

    def close(self) -> None:
        if self.news is not None:
            self.news.close()
        self.store.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Env:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.check()
        finally:
            self.close()
