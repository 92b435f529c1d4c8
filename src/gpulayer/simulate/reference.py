"""What ours is compared with: first come first served, and EASY backfill (Lifka, 1995).

Both know a machine by its free GPUs alone and fill the first one that has room. FIFO lets nobody
pass. EASY gives the first that must wait the earliest start that the limits of the running jobs
promise, on machines of its own choice; a later job may begin if it ends before that, or leaves
those machines enough.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence

from gpulayer.contracts.decision import WorkerView
from gpulayer.simulate.engine import Sized

Spot = list[tuple[int, int]]
"""Machine and GPUs there."""


class Reference:
    """`backfills`: EASY; else FIFO."""

    def __init__(self, fleet: Sequence[WorkerView], *, backfills: bool) -> None:
        self._free = [len(view.capabilities.gpus or ()) for view in fleet]
        self._backfills = backfills
        self._queue: list[Sized] = []
        self._spots: dict[int, Spot] = {}
        self._ends: list[tuple[float, int]] = []
        """When limits end those that run, soonest first."""

    def submit(self, job: Sized) -> None:
        self._queue.append(job)

    def end(self, job: Sized) -> None:
        _give(self._free, self._spots.pop(job.number))
        self._ends = [(at, number) for at, number in self._ends if number != job.number]

    def begin(self, now: float) -> list[Sized]:
        begun: list[Sized] = []
        while self._queue and (spot := _spot(self._free, self._queue[0])):
            begun.append(self._start(self._queue.pop(0), spot, now))
        if self._queue and self._backfills:
            begun += self._backfill(now)
        return begun

    def _backfill(self, now: float) -> list[Sized]:
        at, spare = self._shadow(self._queue[0])
        begun, kept = list[Sized](), self._queue[:1]
        tried: dict[tuple[int, int, bool], bool] = {}
        for job in self._queue[1:]:
            outlives = now + _limit(job) > at
            kind = (job.nodes, job.gpus, outlives)
            if kind in tried:  # there is only ever less room
                kept.append(job)
                continue
            free = list(map(min, self._free, spare)) if outlives else self._free
            spot = _spot(free, job)
            if spot is None:
                tried[kind] = False
                kept.append(job)
                continue
            begun.append(self._start(job, spot, now))
            if outlives:
                _take(spare, spot)
        self._queue = kept
        return begun

    def _shadow(self, head: Sized) -> tuple[float, list[int]]:
        """When it can begin, and what is free then beside it."""
        free = list(self._free)
        for n, (at, number) in enumerate(self._ends):
            _give(free, self._spots[number])
            is_last = n + 1 == len(self._ends) or self._ends[n + 1][0] > at
            if is_last and (spot := _spot(free, head)):
                _take(free, spot)
                return at, free
        return math.inf, free

    def _start(self, job: Sized, spot: Spot, now: float) -> Sized:
        _take(self._free, spot)
        self._spots[job.number] = spot
        insort(self._ends, (now + _limit(job), job.number))
        return job


def _limit(job: Sized) -> float:
    return math.inf if job.job.limit is None else job.job.limit


def _spot(free: Sequence[int], job: Sized) -> Spot | None:
    """The first machines with room: one node on each while there are enough, else more."""
    if not job.gpus:
        return [(0, 0)]
    able = [at for at, there in enumerate(free) if there >= job.gpus]
    if len(able) >= job.nodes:
        return [(at, job.gpus) for at in able[: job.nodes]]
    spot, left = Spot(), job.nodes
    for at in able:
        nodes = min(left, free[at] // job.gpus)
        spot.append((at, nodes * job.gpus))
        left -= nodes
    return None if left else spot


def _take(free: list[int], spot: Spot) -> None:
    for at, gpus in spot:
        free[at] -= gpus


def _give(free: list[int], spot: Spot) -> None:
    for at, gpus in spot:
        free[at] += gpus
