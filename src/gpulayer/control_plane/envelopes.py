"""When a terminal's environment, kept for jobs here, may be dropped.

An envelope is named by what it holds, so the next job from the same terminal has the same one:
it is kept for a moment after its last job, and only a plane that has seen it in use drops it.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

KEEP_SECONDS = 10.0


class Envelopes:
    """What is in use, by the plane's last look. In memory, thread-safe; a registering worker is
    given the whole list, so nothing is lost with it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._used: dict[str, float] = {}
        """Envelope -> monotonic time at which it was last seen in use."""
        self._dropped: tuple[str, ...] = ()

    def use(self, envelopes: Iterable[str], now: float) -> None:
        """Unfinished jobs have these."""
        with self._lock:
            self._used.update(dict.fromkeys(envelopes, now))
            self._dropped = tuple(e for e in self._dropped if e not in self._used)

    def sweep(self, live: Iterable[str], now: float) -> None:
        """`live`: all that unfinished jobs have. The others go when their moment is over."""
        self.use(live, now)
        with self._lock:
            gone = [e for e, seen in self._used.items() if now - seen >= KEEP_SECONDS]
            for envelope in gone:
                del self._used[envelope]
            self._dropped = tuple(gone)

    def unneeded(self, target: str) -> tuple[str, ...]:
        """What a worker of this target may drop; told until the next sweep. Twice-safe."""
        return self._dropped if target == "local" else ()
