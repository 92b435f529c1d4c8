"""Workers during one pass: the facts that checks read, and what is still free.

A `Machine` is the only thing that changes while a pass runs. Amounts are whole millionths, so that
sums are exact and do not depend on their order. Devices are bits of an integer, by bus order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gpulayer.contracts.capabilities import GpuDevice, Interpreter
from gpulayer.contracts.decision import Placement, WorkerView

ALL = -1
"""Every bit."""


class Layout:
    """The devices of a machine without their names: machines with equal devices share one."""

    __slots__ = ("devices",)

    def __init__(self, devices: tuple[GpuDevice, ...]) -> None:
        self.devices = devices


class GpuFact(NamedTuple):
    """What a judgement of the devices of one machine depends on."""

    layout: Layout | None
    free: int
    """Bits of the devices that no task of ours holds."""
    note: str | None
    """Why there is no device, for people."""
    shown: int = ALL
    """Bits of the devices that the terminal's CUDA_VISIBLE_DEVICES shows."""


class Machine:
    """One worker: fixed facts, and what placements of this pass take from it."""

    __slots__ = (
        "bit",
        "caps",
        "cores",
        "free_cores",
        "free_gpus",
        "free_memory",
        "gpu_fact",
        "load",
        "memory",
        "position",
        "tasks",
        "uuids",
        "version",
        "view",
    )

    def __init__(self, view: WorkerView, position: int, layout: Layout | None) -> None:
        caps = view.capabilities
        self.view = view
        self.caps = caps
        self.position = position
        """In the order of worker ids; the last word among equals."""
        self.bit = 1 << position
        self.uuids = tuple(g.uuid for g in _in_order(caps.gpus or ()))
        self.cores = micro(caps.cpu_cores)
        self.memory = None if caps.memory_gb is None else micro(caps.memory_gb)
        self.free_cores = self.cores - sum(micro(a.cpu_cores) for a in view.allocations)
        self.free_memory = (self.memory or 0) - sum(micro(a.memory_gb) for a in view.allocations)
        held = {uuid for a in view.allocations for uuid in a.gpus}
        self.free_gpus = sum(1 << i for i, uuid in enumerate(self.uuids) if uuid not in held)
        self.tasks = len(view.allocations)
        self.gpu_fact = GpuFact(layout, self.free_gpus, caps.gpu_note)
        self.load = self._share()
        """The scarcest of cores, memory and devices: the share of it that is taken, 0..1."""
        self.version = 0
        """Grows with every placement; what was worked out for an older one is stale."""

    def take(self, placement: Placement) -> None:
        """Hold what one task was given."""
        self.free_cores -= micro(placement.cpu_cores)
        self.free_memory -= micro(placement.memory_gb)
        for uuid in placement.gpus:
            self.free_gpus &= ~(1 << self.uuids.index(uuid))
        self.tasks += 1
        self.gpu_fact = self.gpu_fact._replace(free=self.free_gpus)
        self.load = self._share()
        self.version += 1

    def interpreter(self, path: str | None) -> Interpreter | None:
        """The Python that a job would use here: its own on this machine, else the worker's first.
        None: the worker has not said anything about it."""
        known = self.caps.interpreters
        if path is not None and self.view.target == "local":
            return next((i for i in known if i.path == path), None)
        return known[0] if known else None

    def _share(self) -> float:
        share = 1 - self.free_cores / self.cores if self.cores else 1.0
        if self.memory:
            share = max(share, 1 - self.free_memory / self.memory)
        if self.uuids:
            share = max(share, 1 - self.free_gpus.bit_count() / len(self.uuids))
        return share

    @property
    def is_rented(self) -> bool:
        """Backed by a provider: limits on provider, region and price are about these."""
        return self.view.target == "cloud" or self.caps.provider is not None


def machines_of(views: Iterable[WorkerView]) -> list[Machine]:
    """In the order of worker ids, whatever the order of `views`."""
    layouts: dict[Any, Layout] = {}
    machines = []
    for position, view in enumerate(sorted(views, key=lambda v: v.worker_id)):
        gpus = view.capabilities.gpus
        layout = None
        if gpus is not None:
            devices = _in_order(gpus)
            key = tuple(_matter(device) for device in devices)
            layout = layouts.get(key)
            if layout is None:
                layout = layouts[key] = Layout(devices)
        machines.append(Machine(view, position, layout))
    return machines


def micro(amount: float) -> int:
    """Cores or GB as whole millionths."""
    return round(amount * 1_000_000)


def _in_order(gpus: Sequence[GpuDevice]) -> tuple[GpuDevice, ...]:
    return tuple(sorted(gpus, key=lambda g: (g.index, g.uuid)))


def _matter(device: GpuDevice) -> tuple[Any, ...]:
    return (
        device.vendor,
        device.model,
        device.memory_gb,
        device.memory_kind,
        device.compute_capability,
        device.healthy,
        device.unhealthy_why,
        device.numa_node,
        device.link_group,
        device.foreign_pids,
        device.foreign_memory_gb,
        device.mig_parent is not None,
    )
