"""Fences: numbers that are never given twice, not even after a power cut.

They are taken from a block whose end is already on the disk. A transaction that finds the block
empty raises `Exhausted`; the writer rolls it back, puts the end of the next block on the disk (its
own transaction, synced), and runs it again. So nothing of a block is used before the block is
durable, and a plane that dies leaves at most one block unused.
"""

from __future__ import annotations

BLOCK = 10_000


class Exhausted(Exception):
    """The block holds fewer than `count` fences, or ends before `floor`."""

    def __init__(self, count: int, floor: int = 0) -> None:
        super().__init__(f"{count} fences are needed")
        self.count = count
        self.floor = floor


class Fences:
    """The block in memory. Belongs to the one writer and is used in its transactions only."""

    __slots__ = ("_limit", "_next")

    def __init__(self) -> None:
        self._next = self._limit = 0

    def take(self, count: int) -> range:
        if count > self._limit - self._next:
            raise Exhausted(count)
        taken = range(self._next, self._next + count)
        self._next += count
        return taken

    def pass_over(self, fence: int) -> None:
        """From now on only give fences above `fence`."""
        if fence >= self._limit:
            raise Exhausted(1, floor=fence + 1)
        self._next = max(self._next, fence + 1)

    def forget(self) -> None:
        """Leave the rest of the block unused: somebody else may have been given higher ones."""
        self._next = self._limit

    def mark(self) -> int:
        return self._next

    def rewind(self, mark: int) -> None:
        """Take back what a rolled-back transaction took: nobody has seen it."""
        self._next = mark

    def extend(self, stored: int, wanted: Exhausted) -> tuple[int, int]:
        """The next block: (first, end). `stored` is the end of the last one on the disk."""
        first = max(stored, wanted.floor, 1)
        return first, first + max(BLOCK, wanted.count)

    def add(self, first: int, end: int) -> None:
        """The block [first, end) is on the disk now."""
        if first != self._limit:
            self._next = first
        self._limit = end
