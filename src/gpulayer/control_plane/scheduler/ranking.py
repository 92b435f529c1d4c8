"""Which of the workers that fit comes first: the strategy, then topology, then the id.

`place` keeps workers in heaps and looks again only at the one on top. That is right because of one
promise made here: what is placed on a worker never moves that worker forward.
"""

from __future__ import annotations

from gpulayer.contracts.decision import Shape
from gpulayer.control_plane.scheduler.topology import Choice
from gpulayer.control_plane.scheduler.views import Machine

Rank = tuple[float, int, tuple[int, int], int]
"""Smaller is better: (strategy, tasks there, topology, position among the ids)."""


def rank(shape: Shape, machine: Machine, choice: Choice, usable: int) -> Rank:
    """Where `machine` stands for `shape`, given the devices that it would give."""
    position = machine.position
    if shape.strategy == "first_fit":
        return (0.0, 0, (0, 0), position)
    if shape.strategy == "most_free_memory":
        return (-_free_memory(shape, machine, usable), machine.tasks, choice.score, position)
    return (load(machine), machine.tasks, choice.score, position)


def load(machine: Machine) -> float:
    """The scarcest of cores, memory and devices: the share of it that is taken, 0..1."""
    share = 1 - machine.free_cores / machine.cores if machine.cores else 1.0
    if machine.memory:
        share = max(share, 1 - machine.free_memory / machine.memory)
    if machine.uuids:
        share = max(share, 1 - machine.free_gpus.bit_count() / len(machine.uuids))
    return share


def _free_memory(shape: Shape, machine: Machine, usable: int) -> float:
    """GB: of the devices that could be given, for a job with devices; else of the machine."""
    if not shape.gpus or machine.layout is None:
        return machine.free_memory / 1_000_000
    devices = machine.layout.devices
    return sum(d.memory_gb or 0.0 for i, d in enumerate(devices) if usable >> i & 1)
