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
        self._dropped: set[str] = set()
        """To be told."""

    def use(self, envelopes: Iterable[str], now: float) -> None:
        """Unfinished jobs have these."""
        with self._lock:
            self._used.update(dict.fromkeys(envelopes, now))
            self._dropped -= self._used.keys()

    def sweep(self, live: Iterable[str], now: float) -> None:
        """`live`: all that unfinished jobs have. The others go when their moment is over."""
        self.use(live, now)
        with self._lock:
            gone = [e for e, seen in self._used.items() if now - seen >= KEEP_SECONDS]
            for envelope in gone:
                del self._used[envelope]
            self._dropped.update(gone)

    def take_dropped(self) -> tuple[str, ...]:
        """What may go. Told once, since the same terminal may bring it again at any moment; one
        that is not heard goes when its worker registers again."""
        with self._lock:
            gone, self._dropped = tuple(sorted(self._dropped)), set()
        return gone
