"""Ending what a dead supervisor left: for whoever notices, where no new supervisor is to come.

A new supervisor does the same when it takes over, and then remembers how each task ended; this
only ends processes. As a program: `python -I -S -m gpulayer.runtime.sweep HOME`.
"""

from __future__ import annotations

import os
import sys

from gpulayer.runtime import cgroup, homelock, journal, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def sweep(home: str) -> int:
    """Ends every process of the tasks of a dead supervisor of `home`, waits for proof, and returns
    how many there were. Nothing is done where a supervisor lives. Twice-safe."""
    lock = homelock.take(os.path.join(home, "sup", "lock"))
    if lock is None:
        return 0
    try:
        intents = journal.read(os.path.join(home, "sup", "journal")).values()
        for intent in intents:
            if "outside" in intent:
                from gpulayer.runtime.outside import end_now

                end_now(intent)
        # All of them: what was forked for a call to come is named in no intent.
        boxes = {os.path.dirname(intent["leaf"]) for intent in intents if intent.get("leaf")}
        return sum(map(cgroup.end_leaves, boxes)) + sum(end(intent) for intent in intents)
    finally:
        lock.release()


def end(intent: dict[str, Any]) -> int:
    """The same for one task of the journal."""
    leaf = intent.get("leaf")
    ended = cgroup.end_leaf(leaf) if leaf else 0
    return ended + processes.end_marked(intent["marker"].encode())


if __name__ == "__main__":
    sweep(sys.argv[1])
