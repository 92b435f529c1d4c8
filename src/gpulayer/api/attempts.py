"""How often an address may be refused: who guesses is slowed down, who is known is not.

Only refusals count, so that a token that is good works beside any number of bad ones from the same
address. A guess has at best 60 random bits against it; this keeps the notes and the log readable.
"""

from __future__ import annotations

from gpulayer.clock import Clock
from gpulayer.errors import RefusedError

WINDOW_SECONDS = 60.0
REFUSALS = 500
MOST_ADDRESSES = 10_000


class Attempts:
    """Belongs to the event loop's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._refused: dict[str, int] = {}

    def count(self, address: str) -> None:
        """One more refusal. Past the limit it raises `plane-full`, so that nothing is told."""
        self._turn()
        self._refused[address] = self._refused.get(address, 0) + 1
        self.require(address)

    def require(self, address: str) -> None:
        """Raise `plane-full` where it was refused too often: for calls whose refusal is work."""
        self._turn()
        if self._refused.get(address, 0) > REFUSALS:
            raise RefusedError(
                "plane-full",
                f"{REFUSALS} credentials from {address} were refused within a minute",
                why="whoever has a good one is let in all the same",
                hint="gpulayer help unauthorized",
            )

    def _turn(self) -> None:
        now = self._clock.monotonic()
        if now - self._since >= WINDOW_SECONDS or len(self._refused) >= MOST_ADDRESSES:
            self._since = now
            self._refused.clear()
