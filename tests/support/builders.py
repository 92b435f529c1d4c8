"""Workers, shapes and snapshots with sensible defaults, for tests that care about one thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpulayer.contracts.capabilities import GpuDevice, Interpreter, WorkerCapabilities
from gpulayer.contracts.decision import (
    Allocation,
    Fit,
    Pending,
    Shape,
    Snapshot,
    Verdict,
    WorkerView,
)
from gpulayer.contracts.ids import JobId, ShapeId, WorkerId
from gpulayer.control_plane.scheduler.explain import full_table
from gpulayer.control_plane.scheduler.shapes import shape_id

MEMORY_GB = {"a100": 80.0, "h100": 80.0, "rtx4090": 24.0, "t4": 16.0, "m2": 16.0, "mi300x": 192.0}
CAPABILITY = {"a100": "8.0", "h100": "9.0", "rtx4090": "8.9", "t4": "7.5"}
VENDOR = {"m2": "apple", "mi300x": "amd"}
PYTHON = Interpreter("/usr/bin/python3", "3.12.7", {"torch": "2.5.1", "torch.cuda": "12.4"})


def a_gpu(uuid: str = "GPU-0", model: str = "a100", **changes: Any) -> GpuDevice:
    vendor = VENDOR.get(model, "nvidia")
    values: dict[str, Any] = {
        "uuid": uuid,
        "index": 0,
        "vendor": vendor,
        "name": model.upper(),
        "model": model,
        "memory_gb": MEMORY_GB[model],
        "memory_kind": "unified" if vendor == "apple" else "dedicated",
        "compute_capability": CAPABILITY.get(model),
    }
    return GpuDevice(**values | changes)


def gpus_of(worker: str, count: int, model: str = "a100", **changes: Any) -> tuple[GpuDevice, ...]:
    return tuple(
        a_gpu(f"GPU-{worker}-{index}", model, index=index, **changes) for index in range(count)
    )


def a_worker(
    name: str = "lab-1",
    gpus: int | Sequence[GpuDevice] | None = 0,
    model: str = "a100",
    *,
    target: str = "local",
    allocations: Iterable[Allocation] = (),
    draining: bool = False,
    offline: bool = False,
    ahead: int = 0,
    sent: Iterable[int] = (),
    hourly_cost: float | None = None,
    currency: str = "USD",
    **facts: Any,
) -> WorkerView:
    """A Linux machine with 8 cores and 32 GB; `facts` are fields of its capabilities."""
    devices = gpus_of(name, gpus, model) if isinstance(gpus, int) else gpus
    values: dict[str, Any] = {
        "hostname": name,
        "os": "linux",
        "cpu_arch": "x86_64",
        "cpu_cores": 8.0,
        "memory_gb": 32.0,
        "disk_gb": 500.0,
        "gpus": None if devices is None else tuple(devices),
        "interpreters": (PYTHON,),
    }
    return WorkerView(
        worker_id=WorkerId(name),
        name=name,
        target=target,
        capabilities=WorkerCapabilities(**values | facts),
        allocations=tuple(allocations),
        draining=draining,
        offline=offline,
        ahead=ahead,
        sent=tuple(sent),
        hourly_cost=hourly_cost,
        currency=currency,
    )


def a_shape(gpus: int = 0, **changes: Any) -> Shape:
    """One core, or `gpus` devices of any supported kind and one core, on any target."""
    values: dict[str, Any] = {
        "accelerator": "gpu" if gpus else "cpu",
        "gpus": gpus,
        "targets": ("local", "remote", "cloud"),
    }
    return Shape(**values | changes)


def holding(cores: float = 1.0, gpus: Sequence[str] = (), memory_gb: float = 0.0) -> Allocation:
    """What a running task of somebody holds."""
    return Allocation("t1", "other-1", cores, memory_gb, tuple(gpus))


def a_snapshot(
    jobs: Iterable[Shape | tuple[Shape, Mapping[str, Any]]],
    workers: Iterable[WorkerView],
    **limits: Any,
) -> Snapshot:
    """One pending job per shape, named `job-0`, `job-1`, ... in that order. A pair of a shape and a
    mapping sets fields of its `Pending`, such as `priority`."""
    shapes: dict[ShapeId, Shape] = {}
    queue = []
    for seq, job in enumerate(jobs):
        shape, changes = job if isinstance(job, tuple) else (job, {})
        name = shape_id(shape)
        shapes[name] = shape
        values: dict[str, Any] = {"priority": 0, "seq": seq}
        queue.append(Pending(JobId(f"job-{seq}"), name, **values | dict(changes)))
    return Snapshot(shapes, tuple(queue), tuple(workers), limits)


def judged(shape: Shape, *workers: WorkerView) -> tuple[Verdict, ...]:
    """The verdict of every worker on a shape, closest first."""
    return full_table(a_snapshot([shape], workers), shape_id(shape))


def reasons(shape: Shape, worker: WorkerView) -> dict[str, str]:
    """Name -> sentence of every check that does not pass."""
    (verdict,) = judged(shape, worker)
    return {c.name: c.sentence() for c in verdict.checks if c.fit is not Fit.YES}
