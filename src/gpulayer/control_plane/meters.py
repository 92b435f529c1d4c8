"""What a plane counts of itself, for whoever watches it. In memory; a new plane begins at zero.

A histogram keeps how many values were at most each bound, as Prometheus's do: such counts of
several planes can be added.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Lock
from typing import Any

from gpulayer.contracts.states import WorkerState
from gpulayer.control_plane.ports import Reader

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0)
SHAPES = 20
"""Shapes that are told apart; the jobs of all others are counted together, for a label must not
have any number of values."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """`counts[n]` values were at most `bounds[n]`; `count` of all, infinite ones too."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    count: int
    total: float


class Histogram:
    """Thread-safe."""

    def __init__(self, bounds: tuple[float, ...] = BOUNDS) -> None:
        self._bounds = bounds
        self._lock = Lock()
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def add(self, values: Iterable[float]) -> None:
        with self._lock:
            for value in values:
                self._counts[bisect_left(self._bounds, value)] += 1
                self._total += value

    def read(self) -> Distribution:
        with self._lock:
            *counts, count = accumulate(self._counts)
            return Distribution(self._bounds, tuple(counts), count, self._total)


@dataclass(slots=True)
class Meters:
    """Of one plane."""

    waited: Histogram = field(default_factory=Histogram)
    """Seconds from the moment at which a job could be placed to its placement."""


@dataclass(frozen=True, slots=True)
class Measures:
    """All figures of one moment."""

    jobs: Mapping[str, int]
    """By state."""
    queue: Mapping[str, int]
    """Waiting jobs by shape; `other` for all but the largest."""
    workers: Mapping[str, int]
    """By state."""
    tasks: int
    """That workers have now."""
    commits: int
    waited: Distribution


def measures(
    reader: Reader, workers: Iterable[Mapping[str, Any]], meters: Meters, commits: int
) -> Measures:
    """`workers` as the API tells of them."""
    states = Counter({str(state): 0 for state in WorkerState})
    tasks = 0
    for worker in workers:
        states[str(worker["state"])] += 1
        tasks += len(worker["tasks"])
    jobs = {str(state): n for state, n in reader.counts().items()}
    queue = {str(shape_id): n for shape_id, n in reader.queued_by_shape(SHAPES)}
    queue["other"] = max(0, jobs["queued"] - sum(queue.values()))
    return Measures(jobs, queue, states, tasks, commits, meters.waited.read())
