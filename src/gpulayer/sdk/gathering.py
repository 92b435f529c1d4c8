"""How long ends are left to gather before they are asked for, so that one exchange brings several.

Far less than what is left still needs: who waits for all of it waits no longer, and who adds one
for each that ended leaves nobody idle.
"""

from __future__ import annotations

MANY = 16
SECONDS, MOST_SECONDS = 0.005, 0.1


def gather_seconds(left: int) -> float:
    """`SECONDS` for each `MANY` that have not ended; nothing for fewer."""
    return min(left // MANY * SECONDS, MOST_SECONDS)
