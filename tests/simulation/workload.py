"""Clients: they submit with a key and try again until they are answered, and cancel at whim."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from gpulayer.control_plane.submission import Submission
from gpulayer.errors import GPULayerError
from tests.simulation.engine import Engine
from tests.simulation.machine import Broken
from tests.simulation.network import Network
from tests.simulation.plane import PlaneHost

AGAIN_SECONDS = 0.3
ANSWER_SECONDS = 10.0


@dataclass(slots=True)
class Clients:
    """`accepted`: key -> job id, for each submission that was answered."""

    engine: Engine
    network: Network
    host: PlaneHost
    gpus: bool
    most_nodes: int
    """Of a gang, so that there can be room for it."""
    saves: bool = False
    """Every second job has a checkpoint."""
    crowded: bool = False
    arrays: bool = False
    """Two of three commands are arrays."""
    lasting: bool = False
    runs: bool = False
    """Most of what is submitted is an array of a function, of many elements."""
    chained: bool = False
    """Most jobs come after one or two that were accepted before."""
    accepted: dict[str, str] = field(default_factory=dict)
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    """key -> spec"""
    cancelled: set[str] = field(default_factory=set)
    """Job ids whose cancellation was answered."""
    _wishes: dict[str, bool] = field(default_factory=dict)
    """Worker -> whether it is to drain."""

    def plan(self, jobs: int, within: float) -> None:
        """Have that many jobs submitted, and some of them cancelled, at random times."""
        for number in range(jobs):
            key = f"key-{number}"
            self.asked[key] = self._spec(number)
            self.engine.after(self.engine.rng.uniform(0, within), lambda key=key: self._submit(key))  # type: ignore[misc]

    @property
    def waiting(self) -> bool:
        return len(self.accepted) < len(self.asked)

    def _submit(self, key: str) -> None:
        if self.chained and "after" not in self.asked[key]:
            self.asked[key]["after"] = self._before()
        asked = Submission(self.asked[key], {}, key)
        link = self.network.link()

        def answered(value: Any) -> None:
            if isinstance(value, GPULayerError) and value.code == "dependency-failed":
                self.asked[key]["after"] = []  # it said so, and nothing was accepted
                self._submit(key)
                return
            if isinstance(value, GPULayerError):
                raise Broken(f"a good submission was refused: {value}")
            job = value[0]
            known = self.accepted.setdefault(key, job.id)
            if known != job.id:
                raise Broken(f"the key {key} was given to {known} and to {job.id}")
            if _text(job.spec["workload"]) != _text(self.asked[key]["workload"]):
                raise Broken(f"{job.id} is not the job that was submitted")
            self.engine.note("client", f"{key} is {job.id}")
            if known == job.id and job.id not in self.cancelled and self.engine.chance(0.3):
                self.engine.after(self.engine.soon(8.0), lambda: self._cancel(job.id))

        self.network.call(
            link,
            self.host.ask(lambda plane: plane.submit([asked])),
            answered,
            lambda: self._later(lambda: self._submit(key)),
            ANSWER_SECONDS,
        )

    def _before(self) -> list[dict[str, str]]:
        rng, known = self.engine.rng, list(self.accepted.values())
        chosen = rng.sample(known, min(len(known), rng.randrange(3)))
        return [{"job": job, "when": rng.choice(("ok", "ok", "any"))} for job in chosen]

    def _cancel(self, job_id: str) -> None:
        mode = self.engine.rng.choice(("int", "term", "kill"))

        def answered(value: Any) -> None:
            if isinstance(value, GPULayerError):
                raise Broken(f"{job_id} cannot be cancelled: {value}")
            self.engine.note("client", f"cancelled {job_id}")
            self.cancelled.add(job_id)

        self.network.call(
            self.network.link(),
            self.host.ask(lambda plane: plane.cancel(job_id, mode=mode, grace_seconds=3.0)),
            answered,
            lambda: self._later(lambda: self._cancel(job_id)),
            ANSWER_SECONDS,
        )

    def drain(self, worker: str, draining: bool = True) -> None:
        """Until it is answered; a call that comes late brings the newest wish. A worker that the
        plane has not met is let be."""
        self._wishes[worker] = draining
        self.network.call(
            self.network.link(),
            self.host.ask(lambda plane: plane.drain(worker, self._wishes[worker])),
            lambda _: self.engine.note("client", f"{worker} drains: {draining}"),
            lambda: self._later(lambda: self.drain(worker, self._wishes[worker])),
            ANSWER_SECONDS,
        )

    def revoke(self, worker: str) -> None:
        """Until it is answered."""
        self.network.call(
            self.network.link(),
            self.host.revoke(worker),
            lambda _: self.engine.note("client", f"revoked {worker}"),
            lambda: self._later(lambda: self.revoke(worker)),
            ANSWER_SECONDS,
        )

    def _later(self, call: Any) -> None:
        self.engine.after(AGAIN_SECONDS, call)

    def _spec(self, number: int) -> dict[str, Any]:
        rng = self.engine.rng
        if self.crowded:
            return self._small(number)
        if self.runs and number % 4:
            return self._function(number)
        if self.lasting:
            return self._small(number) | {"retry": {"max_attempts": 3}}
        spec: dict[str, Any] = {
            "name": f"job{number}",
            "workload": {"kind": "command", "command": ["work", str(number)]},
            "priority": rng.randrange(3),
            "resources": {"cpu_cores": rng.choice((0.5, 1.0, 1.0))},
        }
        if self.most_nodes > 1 and rng.random() < 0.25:
            nodes = rng.randrange(2, self.most_nodes + 1)
            spec["workload"] = {
                "kind": "distributed",
                "entrypoint": "train.py",
                "num_workers": nodes,
            }
        elif self.gpus and rng.random() < 0.3:
            spec["resources"] |= {"accelerator": "cuda", "gpu_count": rng.choice((1, 2))}
        if spec["workload"]["kind"] == "command" and rng.random() < 0.7:
            retry_on = rng.choice(
                (["worker_lost"], ["worker_lost", "failed"], ["worker_lost", "exit:3"])
            )
            spec["retry"] = {"max_attempts": rng.choice((2, 3)), "retry_on": retry_on}
        if self.saves and spec["workload"]["kind"] == "command" and number % 2:
            spec["checkpoint"] = {"path": "saved"}
        if self.arrays and spec["workload"]["kind"] == "command" and number % 3:
            spec["array"] = {"count": rng.randrange(1, 7)}
            spec["array"] |= {"max_parallel": rng.randrange(1, 4)} if number % 2 else {}
            spec["array"] |= {"max_failures": rng.randrange(3)} if number % 5 == 0 else {}
        if rng.random() < 0.2:
            spec["timeout_seconds"] = rng.choice((0.5, 5.0, 20.0))
        return spec

    def _function(self, number: int) -> dict[str, Any]:
        rng = self.engine.rng
        spec = self._small(number)
        retry_on = rng.choice((["worker_lost"], ["worker_lost", "failed"]))
        spec["workload"] = {"kind": "function", "entrypoint": f"work:f{number}"}
        spec["retry"] = {"max_attempts": rng.choice((1, 1, 2, 3)), "retry_on": retry_on}
        spec["array"] = {"count": rng.choice((3, 12, 30)), "step": rng.choice((1, 3))}
        spec["array"] |= {"max_failures": rng.randrange(6)} if rng.random() < 0.5 else {}
        spec["array"] |= {"max_parallel": 1 + number % 3} if number % 4 == 1 else {}
        return spec

    def _small(self, number: int) -> dict[str, Any]:
        rng = self.engine.rng
        return {
            "name": f"job{number}",
            "workload": {"kind": "command", "command": ["work", str(number)]},
            "priority": rng.choice((0, 0, 0, 0, 1)),
            "resources": {"cpu_cores": rng.choice((1.0, 1.0, 1.0, 0.5))},
            "retry": {"max_attempts": rng.choice((1, 2))},
        }


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
