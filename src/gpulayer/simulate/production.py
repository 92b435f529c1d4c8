"""The scheduler itself as the policy of a replay: snapshots of virtual workers, real passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import islice

from gpulayer.contracts.decision import (
    Allocation,
    Decision,
    Outcome,
    Pending,
    Shape,
    Snapshot,
    WorkerView,
)
from gpulayer.contracts.ids import JobId, ShapeId, WorkerId
from gpulayer.control_plane.scheduler import heads
from gpulayer.control_plane.scheduler.place import Pass
from gpulayer.control_plane.scheduler.shapes import rounded_limit, shape_id, shape_of
from gpulayer.simulate.engine import Sized

PASS_JOBS = 64
"""Most jobs of a shape in one pass, as in a plane."""


class Production:
    """Queue, heads and passes as `control_plane.dispatch` has them, without its store."""

    def __init__(self, fleet: Sequence[WorkerView], strategy: str) -> None:
        self._strategy = strategy
        self._views = {view.worker_id: view for view in fleet}
        self._jobs: dict[JobId, Sized] = {}
        self._shapes: dict[ShapeId, Shape] = {}
        self._ids: dict[tuple[int, int, float | None], ShapeId] = {}
        self._queue: dict[ShapeId, dict[JobId, Pending]] = {}
        """By shape, in the order of arrival."""
        self._places: dict[int, tuple[WorkerId, ...]] = {}
        self.reserved: dict[JobId, float] = {}
        """By job that has a reservation: when it is to begin, as of the newest pass."""
        self._moved = 0
        """Jobs that the newest pass placed."""

    def submit(self, job: Sized) -> None:
        name, shape = JobId(f"job-{job.number}"), self._shape(job)
        self._jobs[name] = job
        pending = Pending(name, shape, 0, job.number, since=job.job.at)
        self._queue.setdefault(shape, {})[name] = pending

    def end(self, job: Sized) -> None:
        name = f"job-{job.number}"
        for worker_id in self._places.pop(job.number):
            view = self._views[worker_id]
            left = tuple(held for held in view.allocations if held.job_id != name)
            self._views[worker_id] = dataclasses.replace(view, allocations=left)

    def begin(self, now: float) -> Iterator[Sized]:
        """Pass after pass, until one finds nothing to do."""
        has_more = True
        while has_more and self._queue:
            most = heads.most(self._moved, PASS_JOBS)
            queue = [p for jobs in self._queue.values() for p in islice(jobs.values(), most)]
            shapes = {name: self._shapes[name] for name in self._queue}
            limits = {"detail": 0, "now": now, "heads": most}
            snapshot = Snapshot(shapes, tuple(queue), tuple(self._views.values()), limits)
            decisions = list(Pass(snapshot).run())
            self.reserved = {
                d.job_id: hold.until
                for d in decisions
                for hold in d.holds
                if hold.until is not None
            }
            placed = [d for d in decisions if d.outcome is Outcome.PLACED]
            for decision in placed:
                yield self._hold(decision, now)
            waiting = {d.shape_id for d in decisions if d.outcome is not Outcome.PLACED}
            has_more = heads.may_have_more(queue, most, waiting)
            self._moved = len(placed)

    def _hold(self, decision: Decision, now: float) -> Sized:
        del self._queue[decision.shape_id][decision.job_id]
        if not self._queue[decision.shape_id]:
            del self._queue[decision.shape_id]
        job = self._jobs.pop(decision.job_id)
        for p in decision.placements:
            task = f"{decision.job_id}/{p.rank}"
            until = None if job.job.limit is None else now + job.job.limit
            held = Allocation(task, decision.job_id, p.cpu_cores, p.memory_gb, p.gpus, until)
            view = self._views[p.worker_id]
            after = dataclasses.replace(view, allocations=(*view.allocations, held))
            self._views[p.worker_id] = after
        self._places[job.number] = tuple(dict.fromkeys(p.worker_id for p in decision.placements))
        return job

    def _shape(self, job: Sized) -> ShapeId:
        """As of a job that was submitted with these needs; what it starts needs nothing more."""
        key = (job.nodes, job.gpus, rounded_limit(job.job.limit))
        if key not in self._ids:
            spec = {
                "workload": {"kind": "distributed", "launcher": "direct", "num_workers": job.nodes},
                "resources": {"accelerator": "gpu" if job.gpus else "cpu", "gpu_count": job.gpus},
                "placement": {"target": "remote", "strategy": self._strategy},
                "timeout_seconds": job.job.limit,
            }
            shape = shape_of(spec, {})
            self._ids[key] = shape_id(shape)
            self._shapes[self._ids[key]] = shape
        return self._ids[key]
