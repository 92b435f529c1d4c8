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
    return (machine.load, machine.tasks, choice.score, position)


def _free_memory(shape: Shape, machine: Machine, usable: int) -> float:
    """GB: of the devices that could be given, for a job with devices; else of the machine."""
    layout = machine.gpu_fact.layout
    if not shape.gpus or layout is None:
        return machine.free_memory / 1_000_000
    devices = layout.devices
    return sum(d.memory_gb or 0.0 for i, d in enumerate(devices) if usable >> i & 1)
