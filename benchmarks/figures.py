"""One measured figure, and the two ways to get it: repeated calls, or one counted batch."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    count: int
    budget: float | None = None
    """What was promised, in the same unit."""
    is_peer: bool = False
    measure: str = ""
    """Where the same is measured of others: which of `benchmarks.beside.measures`."""

    @property
    def is_met(self) -> bool | None:
        if self.budget is None:
            return None
        return self.value >= self.budget if self.unit in ("/s", "x") else self.value <= self.budget


def wall(argv: Sequence[str], environ: Mapping[str, str], count: int) -> float:
    """Median seconds from start to end of a process; one warm-up first."""
    return _median(lambda: _timed(argv, environ), count)


def cpu(argv: Sequence[str], environ: Mapping[str, str], count: int) -> float:
    """Median CPU seconds, user and system, of a process; one warm-up first."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _timed(argv, environ)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return _median(once, count)


def calls(action: Callable[[], object], count: int) -> float:
    """Median seconds of a call; two warm-ups first."""

    def once() -> float:
        begun = time.perf_counter()
        action()
        return time.perf_counter() - begun

    once()
    return _median(once, count)


def batch(action: Callable[[], object], size: int, runs: int = 3) -> float:
    """Median rate per second of an action that does `size` things."""

    def once() -> float:
        begun = time.perf_counter()
        action()
        return size / (time.perf_counter() - begun)

    return statistics.median(once() for _ in range(runs))


def _timed(argv: Sequence[str], environ: Mapping[str, str]) -> float:
    begun = time.perf_counter()
    with open(os.devnull, "w") as sink:
        subprocess.run(argv, env=dict(environ), stdout=sink, stderr=sink, check=False)
    return time.perf_counter() - begun


def _median(once: Callable[[], float], count: int) -> float:
    once()
    return statistics.median(once() for _ in range(count))
