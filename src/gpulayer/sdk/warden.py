"""Sees to it that a plane has its agent: one that died is replaced at once.

The agent's lock is the truth, the end of its parked call the news. One that keeps dying is started
ever more rarely. One of another version is ended: an upgrade would reach it last, if ever, and the
next one re-attaches to all that runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from gpulayer._version import __version__
from gpulayer.clock import Clock
from gpulayer.sdk import processes, siblings
from gpulayer.sdk.places import Places
from gpulayer.sdk.seat import is_held

FIRST_SECONDS, LAST_SECONDS = 1.0, 60.0


class Warden:
    """Belongs to one thread."""

    def __init__(
        self,
        places: Places,
        clock: Clock,
        start: Callable[[], None] | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        self._places = places
        self._lock = os.path.join(places.state, "agent.lock")
        self._start = start or (lambda: siblings.start_agent(places))
        self._end = end or (lambda: processes.end(places, "agent"))
        self._clock = clock
        self._pause = FIRST_SECONDS
        self._next = clock.monotonic()
        self._resting = False

    def agent_lives(self) -> bool:
        return is_held(self._lock)

    def look(self) -> None:
        """Start an agent if there is none and one is due. Cheap; call it on every suspicion."""
        now = self._clock.monotonic()
        if self._resting or now < self._next:
            return
        if self.agent_lives():
            self._pause = FIRST_SECONDS
            if self._version_of_agent() in ("", __version__):
                return
            self._end()
        self._next = now + self._pause
        self._pause = min(LAST_SECONDS, self._pause * 2)
        self._start()

    def _version_of_agent(self) -> str:
        """As it wrote it into its lock; empty before it did."""
        try:
            with open(self._lock, encoding="utf-8", errors="replace") as file:
                lines = file.read(1000).split("\n")
        except OSError:
            return ""
        return lines[1] if len(lines) > 2 else ""

    def rest(self) -> None:
        """Start no agent any more: the plane is leaving."""
        self._resting = True
