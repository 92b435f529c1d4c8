"""What the writer remembers of its own writes. Emptied by every rollback."""

from __future__ import annotations

from collections import Counter

from gpulayer.contracts.decision import Outcome
from gpulayer.contracts.ids import ShapeId


class Memo:
    """Belongs to the one writer and is used in its transactions only."""

    __slots__ = ("decisions", "shapes", "tally")

    def __init__(self) -> None:
        self.shapes: set[ShapeId] = set()
        """Known to be stored."""
        self.decisions: dict[tuple[ShapeId, Outcome], tuple[int, tuple[object, ...]]] = {}
        """Of each shape and outcome the newest decision's id, and what it says."""

        self.tally: Counter[str] = Counter()
        """Jobs that moved into (+) and out of (-) a state, not yet added to the kept counts."""

    def clear(self) -> None:
        self.shapes.clear()
        self.decisions.clear()
        self.tally.clear()
