"""A clock that goes only when told, and ids from a seed."""

from __future__ import annotations

import random

from gpulayer.clock import ALPHABET


class FakeClock:
    """`advance` moves all three clocks; `jump` only the wall clock."""

    def __init__(self, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        self._wall = wall
        self._monotonic = monotonic

    def now(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def boottime(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._wall += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        self._wall += seconds


class SeededIds:
    """The same seed gives the same names and the same jitter."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def token(self, length: int) -> str:
        return "".join(self._random.choices(ALPHABET, k=length))

    def uniform(self) -> float:
        return self._random.random()
