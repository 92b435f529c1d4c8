"""Sees to it that a plane has its agent: one that died is replaced at once.

The agent's lock is the truth, the end of its parked call the news. One that keeps dying is started
ever more rarely.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from gpulayer.clock import Clock
from gpulayer.sdk import siblings
from gpulayer.sdk.places import Places
from gpulayer.sdk.seat import is_held

FIRST_SECONDS, LAST_SECONDS = 1.0, 60.0


class Warden:
    """Belongs to one thread."""

    def __init__(
        self, places: Places, clock: Clock, start: Callable[[], None] | None = None
    ) -> None:
        self._places = places
        self._start = start or (lambda: siblings.start_agent(places))
        self._clock = clock
        self._pause = FIRST_SECONDS
        self._next = clock.monotonic()
        self._resting = False

    def agent_lives(self) -> bool:
        return is_held(os.path.join(self._places.state, "agent.lock"))

    def look(self) -> None:
        """Start an agent if there is none and one is due. Cheap; call it on every suspicion."""
        now = self._clock.monotonic()
        if self._resting or now < self._next:
            return
        if self.agent_lives():
            self._pause = FIRST_SECONDS
            return
        self._next = now + self._pause
        self._pause = min(LAST_SECONDS, self._pause * 2)
        self._start()

    def rest(self) -> None:
        """Start no agent any more: the plane is leaving."""
        self._resting = True
