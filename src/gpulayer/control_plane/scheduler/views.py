"""Workers during one pass: the facts that checks read, and what is still free.

A `Machine` is the only thing that changes while a pass runs: it goes from one `Standing` to the
next. Machines with the same amounts share theirs, so that what follows from it is worked out once.
Amounts are whole millionths, so that sums are exact and do not depend on their order. Devices are
bits of an integer, by bus order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpulayer.contracts.capabilities import GpuDevice, Interpreter
from gpulayer.contracts.decision import Hold, Placement, WorkerView

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


class Kept(NamedTuple):
    """A hold in the units of a pass: what those may still have that outlive it."""

    job_id: str
    until: float | None
    cores: int
    memory: int
    gpus: int
    """Bits."""


class Amounts(NamedTuple):
    """What a machine has and what of it is free."""

    cores: int
    free_cores: int
    memory: int | None
    free_memory: int
    tasks: int
    gpu_fact: GpuFact
    kept: Kept | None = None


class Release(NamedTuple):
    """What a task gives back when its limit ends it."""

    at: float
    cores: int
    memory: int
    gpus: int


class Standing:
    """Where a machine stands: its amounts, and what follows from them. There is one object for
    equal amounts in a pass, so that standings are compared and looked up by identity."""

    __slots__ = ("_after", "_known", "amounts", "gpu_fact", "load", "tasks")

    def __init__(self, amounts: Amounts, known: dict[Amounts, Standing]) -> None:
        self.amounts = amounts
        self.tasks = amounts.tasks
        self.gpu_fact = amounts.gpu_fact
        self.load = _share(amounts)
        """The scarcest of cores, memory and devices: the share of it that is taken, 0..1."""
        self._known = known
        self._after: dict[tuple[float, float, int, bool], Standing] = {}

    def after(self, cpu_cores: float, memory_gb: float, gpus: int, outlives: bool) -> Standing:
        """Of a machine that holds that as well; `gpus` are bits."""
        taken = (cpu_cores, memory_gb, gpus, outlives)
        found = self._after.get(taken)
        if found is None:
            was = self.amounts
            amounts = was._replace(
                free_cores=was.free_cores - micro(cpu_cores),
                free_memory=was.free_memory - micro(memory_gb),
                tasks=was.tasks + 1,
                gpu_fact=was.gpu_fact._replace(free=was.gpu_fact.free & ~gpus),
                kept=was.kept
                and was.kept._replace(
                    cores=was.kept.cores - outlives * micro(cpu_cores),
                    memory=was.kept.memory - outlives * micro(memory_gb),
                    gpus=was.kept.gpus & ~gpus if outlives else was.kept.gpus,
                ),
            )
            found = self._after[taken] = standing(amounts, self._known)
        return found


def standing(amounts: Amounts, known: dict[Amounts, Standing]) -> Standing:
    """The one with these amounts among those that are known in this pass."""
    found = known.get(amounts)
    if found is None:
        found = known[amounts] = Standing(amounts, known)
    return found


class Machine:
    """One worker: fixed facts, and where it stands after the placements of this pass."""

    __slots__ = ("_known", "bit", "caps", "now", "position", "releases", "uuids", "view")

    def __init__(
        self,
        view: WorkerView,
        position: int,
        layout: Layout | None,
        uuids: tuple[str, ...],
        known: dict[Amounts, Standing],
    ) -> None:
        caps = view.capabilities
        self.view = view
        self.caps = caps
        self.position = position
        """In the order of worker ids; the last word among equals."""
        self.bit = 1 << position
        self.uuids = uuids
        """Of its devices, by bit."""
        cores = micro(caps.cpu_cores)
        memory = None if caps.memory_gb is None else micro(caps.memory_gb)
        free_cores = cores - sum(micro(a.cpu_cores) for a in view.allocations)
        free_memory = (memory or 0) - sum(micro(a.memory_gb) for a in view.allocations)
        held = {uuid for a in view.allocations for uuid in a.gpus}
        free = sum(1 << i for i, uuid in enumerate(uuids) if uuid not in held)
        fact = GpuFact(layout, free, caps.gpu_note)
        tasks = len(view.allocations)
        self._known = known
        self.now = standing(Amounts(cores, free_cores, memory, free_memory, tasks, fact), known)
        self.releases: list[Release] = []
        """Of what was placed in this pass."""
        if view.hold is not None:
            self.keep(view.hold)

    def take(self, placement: Placement, until: float | None = None) -> None:
        """Hold what one task was given, which its limit ends at `until`."""
        bits = self.bits(placement.gpus)
        kept = self.now.amounts.kept
        over = kept is not None and outlives(until, kept.until)
        self.now = self.now.after(placement.cpu_cores, placement.memory_gb, bits, over)
        if until is not None:
            cores, memory = micro(placement.cpu_cores), micro(placement.memory_gb)
            self.releases.append(Release(until, cores, memory, bits))

    def keep(self, hold: Hold) -> None:
        """From now on what outlives the hold may have no more than it says."""
        bits = self.bits(hold.gpus)
        kept = Kept(hold.job_id, hold.until, micro(hold.cpu_cores), micro(hold.memory_gb), bits)
        self.now = standing(self.now.amounts._replace(kept=kept), self._known)

    def bits(self, uuids: Iterable[str]) -> int:
        """Of its devices with these names."""
        return sum(1 << self.uuids.index(uuid) for uuid in uuids)

    def to_come(self) -> list[Release]:
        """What limits make free, soonest first."""
        held = [
            Release(a.until, micro(a.cpu_cores), micro(a.memory_gb), self._known_bits(a.gpus))
            for a in self.view.allocations
            if a.until is not None
        ]
        return sorted([*held, *self.releases])

    def _known_bits(self, uuids: Iterable[str]) -> int:
        return self.bits(uuid for uuid in uuids if uuid in self.uuids)

    def interpreter(self, path: str | None) -> Interpreter | None:
        """The Python that a job would use here: its own on this machine, else the worker's first.
        None: the worker has not said anything about it."""
        known = self.caps.interpreters
        if path is not None and self.view.target == "local":
            return next((i for i in known if i.path == path), None)
        return known[0] if known else None

    @property
    def is_rented(self) -> bool:
        """Backed by a provider: limits on provider, region and price are about these."""
        return self.view.target == "cloud" or self.caps.provider is not None


def machines_of(views: Iterable[WorkerView]) -> list[Machine]:
    """In the order of worker ids, whatever the order of `views`."""
    known: dict[Amounts, Standing] = {}
    machines = []
    for position, view in enumerate(sorted(views, key=lambda v: v.worker_id)):
        gpus = view.capabilities.gpus
        layout, uuids = (None, ()) if gpus is None else _laid_out(gpus)
        machines.append(Machine(view, position, layout, uuids, known))
    return machines


def outlives(until: float | None, start: float | None) -> bool:
    """Whether what may run until then may be in the way of what shall start. None: not known."""
    return until is None or start is None or until > start


def micro(amount: float) -> int:
    """Cores or GB as whole millionths."""
    return round(amount * 1_000_000)


def _share(amounts: Amounts) -> float:
    share = 1 - amounts.free_cores / amounts.cores if amounts.cores else 1.0
    if amounts.memory:
        share = max(share, 1 - amounts.free_memory / amounts.memory)
    layout, free = amounts.gpu_fact.layout, amounts.gpu_fact.free
    if layout is not None and layout.devices:
        share = max(share, 1 - free.bit_count() / len(layout.devices))
    return share


@lru_cache(maxsize=8192)
def _laid_out(gpus: tuple[GpuDevice, ...]) -> tuple[Layout, tuple[str, ...]]:
    """The layout of a machine's devices and their names, by bit."""
    devices = _in_order(gpus)
    return _layout(tuple(map(_nameless, devices))), tuple(device.uuid for device in devices)


@lru_cache(maxsize=1024)
def _layout(devices: tuple[GpuDevice, ...]) -> Layout:
    return Layout(devices)


def _in_order(gpus: Sequence[GpuDevice]) -> tuple[GpuDevice, ...]:
    return tuple(sorted(gpus, key=lambda g: (g.index, g.uuid)))


def _nameless(device: GpuDevice) -> GpuDevice:
    """Without what tells equal devices apart, and what changes while nothing else does."""
    return dataclasses.replace(
        device,
        uuid="",
        index=0,
        name="",
        used_memory_gb=None,
        utilization=None,
        mig_parent=None if device.mig_parent is None else "",
    )
