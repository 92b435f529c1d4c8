"""The worker that a job lacks: a machine that has exactly what one node of it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpulayer.contracts.capabilities import GpuDevice, Interpreter, WorkerCapabilities
from gpulayer.contracts.decision import Shape, WorkerView
from gpulayer.contracts.ids import WorkerId
from gpulayer.control_plane.scheduler.checks import meets

_VERSION = re.compile(r"\d+(?:\.\d+)*")


def newcomer(shape: Shape, number: int) -> WorkerView | None:
    """None: no machine that could join would do, since the job stays on the plane's own, or asks
    for what cannot be made up (a version that nothing meets, a worker by its id)."""
    target = next((name for name in shape.targets if name != "local"), None)
    found = {name: _version(spec) for name, spec in shape.frameworks}
    versions = {name: version for name, version in found.items() if version is not None}
    python = _version(shape.python or "")
    if target is None or shape.worker_ids or len(versions) < len(found) or python is None:
        return None
    name = f"newcomer-{number}"
    facts = WorkerCapabilities(
        hostname=name,
        os=(*shape.os, "linux")[0],
        cpu_arch=(*shape.cpu_arch, "x86_64")[0],
        cpu_cores=shape.cpu_cores,
        memory_gb=shape.memory_gb,
        disk_gb=shape.disk_gb,
        gpus=tuple(_device(shape, f"GPU-{name}-{index}", index) for index in range(shape.gpus)),
        interpreters=(Interpreter("python", python, versions),),
        labels=dict(shape.labels),
        provider=(*shape.providers, None)[0],
        region=(*shape.regions, None)[0],
        data=shape.data,
        secrets=shape.secrets,
        containers="podman" if shape.image else None,
    )
    return WorkerView(
        WorkerId(name),
        name,
        target,
        facts,
        hourly_cost=shape.max_hourly_cost,
        currency=shape.currency,
    )


def has(shape: Shape) -> str:
    """What such a machine has, for people: `4 GPUs (a100, 40 GB each), 8 cores, torch>=2.2`."""
    return ", ".join(_has(shape))


def _has(shape: Shape) -> Iterator[str]:
    if shape.gpus:
        kinds = [" or ".join(shape.gpu_models)] if shape.gpu_models else []
        if shape.gpu_memory_gb is not None:
            kinds.append(f"{shape.gpu_memory_gb:g} GB each")
        if shape.min_compute_capability is not None:
            kinds.append(f"compute capability {shape.min_compute_capability}")
        plural = "" if shape.gpus == 1 else "s"
        yield f"{shape.gpus} free GPU{plural}" + (f" ({', '.join(kinds)})" if kinds else "")
    yield f"{shape.cpu_cores:g} free core{'' if shape.cpu_cores == 1 else 's'}"
    if shape.memory_gb is not None:
        yield f"{shape.memory_gb:g} GB of memory"
    if shape.disk_gb is not None:
        yield f"{shape.disk_gb:g} GB of disk"
    if shape.python:
        yield f"Python{shape.python}"
    yield from (f"{name}{spec}" for name, spec in shape.frameworks)
    yield from (f"data set {name}" for name in shape.data)
    yield from (f"secret {name}" for name in shape.secrets)
    yield from (f"label {key}={value}" for key, value in shape.labels)
    if shape.image:
        yield "Podman or Docker"
    for names in (shape.os, shape.cpu_arch, shape.providers, shape.regions):
        if names:
            yield " or ".join(names)


def _device(shape: Shape, uuid: str, index: int) -> GpuDevice:
    is_apple = shape.accelerator == "mps"
    is_unified = is_apple if shape.gpu_memory_kind is None else shape.gpu_memory_kind == "unified"
    model = (*shape.gpu_models, "m2" if is_apple else "a100")[0]
    return GpuDevice(
        uuid=uuid,
        index=index,
        vendor="apple" if is_apple else "nvidia",
        name=model.upper(),
        model=model,
        memory_gb=shape.gpu_memory_gb,
        memory_kind="unified" if is_unified else "dedicated",
        compute_capability=shape.min_compute_capability,
        healthy=True,
    )


def _version(spec: str) -> str | None:
    """One that meets it, made of those that it names."""
    named = _VERSION.findall(spec)
    more = [f"{version}.1" for version in named]
    more += [re.sub(r"\d+$", lambda last: str(int(last[0]) + 1), version) for version in named]
    return next((v for v in (*named, *more, "3.12") if meets(spec, v)), None)
