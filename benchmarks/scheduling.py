"""One scheduling pass over a long queue and a large fleet, in CPU time: pure, so without a peer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from benchmarks.figures import Figure
from gpulayer.contracts.capabilities import GpuDevice, WorkerCapabilities
from gpulayer.contracts.decision import Allocation, Outcome, Pending, Shape, Snapshot, WorkerView
from gpulayer.contracts.ids import JobId, WorkerId
from gpulayer.control_plane.scheduler.place import place
from gpulayer.control_plane.scheduler.shapes import shape_id

JOBS, WORKERS, RUNS = 10_000, 1_000, 9
_MACHINES = ((4.0, 16.0, 0), (8.0, 32.0, 1), (16.0, 64.0, 4), (32.0, 256.0, 8))
"""Cores, GB and GPUs, in turn."""


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    shapes = [
        Shape(
            accelerator="gpu" if gpus else "cpu",
            gpus=gpus,
            cpu_cores=cores,
            memory_gb=memory,
            targets=("remote",),
            strategy=strategy,
        )
        for gpus in (0, 1, 2, 4)
        for cores in (1.0, 4.0)
        for memory in (4.0, 16.0)
        for strategy in ("spread", "first_fit")
    ]
    mixed = _snapshot(shapes, [_worker(n) for n in range(WORKERS)])
    placed = sum(decision.outcome is Outcome.PLACED for decision in place(mixed))
    yield Figure(f"a pass that places {placed:,} of {JOBS:,} on {WORKERS:,}", _least(mixed) * 1000,
                 "ms", RUNS, budget=100)  # fmt: skip
    full = _snapshot(shapes, [_worker(n, held=99.0) for n in range(WORKERS)])
    yield Figure("the same where nothing fits", _least(full) * 1000, "ms", RUNS)


def _least(snapshot: Snapshot) -> float:
    """CPU seconds: the smallest of several, since others on the machine only ever add to it."""

    def once() -> float:
        begun = time.thread_time()
        place(snapshot)
        return time.thread_time() - begun

    return min(once() for _ in range(RUNS))


def _snapshot(shapes: Sequence[Shape], workers: Sequence[WorkerView]) -> Snapshot:
    """The shapes take turns, each fourth job with a higher priority."""
    known = [(shape_id(shape), shape) for shape in shapes]
    queue = tuple(
        Pending(JobId(f"job-{n}"), known[n % len(known)][0], int(n % 4 == 0), n)
        for n in range(JOBS)
    )
    return Snapshot(dict(known), queue, tuple(workers))


def _worker(n: int, held: float = 1.0) -> WorkerView:
    """`held`: cores that are taken."""
    name = f"w{n:04}"
    cores, memory, gpus = _MACHINES[n % len(_MACHINES)]
    devices = tuple(
        GpuDevice(
            uuid=f"GPU-{name}-{index}",
            index=index,
            vendor="nvidia",
            name="A100",
            model="a100",
            memory_gb=80.0,
            memory_kind="dedicated",
            compute_capability="8.0",
            healthy=True,
        )
        for index in range(gpus)
    )
    capabilities = WorkerCapabilities(
        name, "linux", "x86_64", cores, memory_gb=memory, disk_gb=500.0, gpus=devices
    )
    held_there = (Allocation(f"task-{n}", "other", held, 2.0),)
    return WorkerView(WorkerId(name), name, "remote", capabilities, held_there)
