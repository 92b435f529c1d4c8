"""What the writer remembers of its own last writes. Emptied by every rollback."""

from __future__ import annotations

from gpulayer.contracts.ids import ShapeId


class Memo:
    """Belongs to the one writer and is used in its transactions only."""

    __slots__ = ("decisions", "shapes")

    def __init__(self) -> None:
        self.shapes: set[ShapeId] = set()
        """Known to be stored."""
        self.decisions: dict[ShapeId, tuple[int, tuple[object, ...]]] = {}
        """Of each shape the newest decision's id, and what it says."""

    def clear(self) -> None:
        self.shapes.clear()
        self.decisions.clear()
