"""A run in which a test says what happens and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.records import Event, Job, Task
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.submission import Submission
from gpulayer.worker.agent import Agent
from tests.simulation.drawn import TORCH
from tests.simulation.engine import Engine
from tests.simulation.machine import Physics, Plan
from tests.simulation.network import Network
from tests.simulation.plane import PlaneHost
from tests.simulation.worker import Worker

AGAIN = {"retry": {"max_attempts": 2, "retry_on": ["worker_lost"]}}


class FarPlane(PlaneHost):
    """No worker can start it."""

    away = False

    def wanted(self) -> None:
        if not self.away:
            super().wanted()


class Script:
    """A plane and workers elsewhere, of one core each. Nothing goes wrong but what is asked for;
    `physics` breaks the run where two processes of one element live."""

    def __init__(
        self,
        folder: str,
        plan: Callable[[str], Plan],
        workers: int = 2,
        make_agent: Callable[..., Agent] = Agent,
        make_plane: Callable[..., ControlPlane] = ControlPlane,
    ) -> None:
        """`plan`: what a process on the worker of that name does."""
        self.engine = Engine(1, keep_trace=True)
        self.physics = Physics(self.engine)
        self.host = FarPlane(self.engine, folder, lambda: self.network.hang_up(), make_plane)
        self.network = Network(self.engine, self.host)
        self.workers = [
            Worker(
                name,
                self.engine,
                self.network,
                self.host,
                self.physics,
                make_agent,
                plan=lambda _, name=name: plan(name),  # type: ignore[misc]
                capabilities=WorkerCapabilities(
                    name, "linux", "x86_64", 1.0, 16.0, 100.0, interpreters=(TORCH,)
                ),
            )
            for name in (f"w{number}" for number in range(workers))
        ]
        self.until(5.0)

    def until(self, seconds: float) -> None:
        self.engine.run(seconds, after_each=lambda: None)

    def submit(self, **spec: Any) -> str:
        workload = {"kind": "command", "command": ["train"]}
        body = {"name": "train", "workload": workload, "resources": {"cpu_cores": 1.0}, **spec}
        assert self.host.plane is not None
        return str(self.host.plane.submit([Submission(body)]).result(0)[0].id)

    def copied(self, name: str) -> Worker:
        """Another machine with a copy of that one's disk."""
        of = self.on(name)
        self.workers.append(
            Worker(
                f"{name}-copy",
                self.engine,
                self.network,
                self.host,
                self.physics,
                plan=of.plan,
                capabilities=of.capabilities,
                worker_id=name,
            )
        )
        return self.workers[-1]

    def gang(self, nodes: int = 2) -> str:
        work = {"kind": "distributed", "entrypoint": "train.py", "num_workers": nodes}
        return self.submit(workload=work)

    def restart(self, seconds: float) -> None:
        """kill -9 of the plane, which is back after that time."""
        self.host.away = True
        self.host.crash(1e9)
        self.until(self.engine.now + seconds)
        self.host.away = False
        self.host.wanted()

    def cut(self, seconds: float) -> None:
        for worker in self.workers:
            worker.link.cut_until = self.engine.now + seconds

    def job(self, job_id: str) -> tuple[Job, list[Event], int]:
        """Its row, its story, and how many processes of it there have been."""
        assert self.host.store is not None
        with self.host.store.read() as reader:
            (job,) = [job for job in reader.jobs() if job.id == job_id]
            return job, reader.events(job.id), self.physics.runs.get((job.id, 0), 0)

    def tasks(self, job_id: str) -> list[Task]:
        assert self.host.store is not None
        with self.host.store.read() as reader:
            return reader.tasks(job_id)  # type: ignore[arg-type]

    def where(self) -> list[str]:
        """The machines on which something runs."""
        return sorted(process.machine for process in self.physics.alive.values())

    def story(self, job_id: str) -> list[str]:
        """Kinds of its events."""
        return [event.kind for event in self.job(job_id)[1]]

    def on(self, name: str) -> Worker:
        return next(worker for worker in self.workers if worker.name == name)

    def close(self) -> None:
        if self.host.store is not None:
            self.host.store.close()
