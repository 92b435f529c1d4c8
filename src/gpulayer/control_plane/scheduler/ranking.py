"""Which of the workers that fit comes first: the strategy, then topology, then the id.

`gang` keeps workers by rank and looks again only at the first one. That is right because of one
promise made here: what is placed on a worker never moves that worker forward.
"""

from __future__ import annotations

import math

from gpulayer.contracts.decision import Shape
from gpulayer.control_plane.scheduler.topology import Choice
from gpulayer.control_plane.scheduler.views import Standing

Rank = tuple[float, int, tuple[int, int]]
"""Smaller is better: (strategy, tasks there, topology). Among equals the first id."""
NOWHERE: Rank = (math.inf, 0, (0, 0))
"""Of a machine that does not fit."""


def rank(shape: Shape, now: Standing, choice: Choice, usable: int) -> Rank:
    """Where a machine with that standing is for `shape`, given the devices that it would give."""
    if shape.strategy == "first_fit":
        return (0.0, 0, (0, 0))
    if shape.strategy == "most_free_memory":
        return (-_free_memory(shape, now, usable), now.tasks, choice.score)
    return (now.load, now.tasks, choice.score)


def _free_memory(shape: Shape, now: Standing, usable: int) -> float:
    """GB: of the devices that could be given, for a job with devices; else of the machine."""
    layout = now.gpu_fact.layout
    if not shape.gpus or layout is None:
        return now.amounts.free_memory / 1_000_000
    devices = layout.devices
    return sum(d.memory_gb or 0.0 for i, d in enumerate(devices) if usable >> i & 1)
