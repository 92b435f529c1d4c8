"""How much of the queue one pass looks at: of each shape the first few jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from gpulayer.contracts.decision import Pending
from gpulayer.contracts.ids import ShapeId

LEAST = 8
"""Jobs of a shape that a pass looks at."""


def most(moved: int, limit: int) -> int:
    """Jobs of each shape for the next pass: one that found room for all that it looked at is
    followed by a longer one. `moved`: by the newest pass."""
    return min(limit, max(LEAST, 2 * moved))


def may_have_more(queue: Iterable[Pending], looked_at: int, waiting: Collection[ShapeId]) -> bool:
    """Whether jobs were left out that may find room: like them no job waits for any."""
    counts = Counter(pending.shape_id for pending in queue)
    return any(n >= looked_at and shape not in waiting for shape, n in counts.items())
