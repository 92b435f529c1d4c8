"""The only room that may ask the world for time, ids or randomness.

Everything below the use cases takes these as arguments, so that the simulator can run the same
rules on a virtual clock and a seed. `SystemClock` and `SystemIds` may be shared by threads.
"""

from __future__ import annotations

import os
import time
from typing import Protocol

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter that can be read as another."""


class Clock(Protocol):
    """Three clocks. `now` is for people, `monotonic` for waits, `boottime` for leases."""

    def now(self) -> float:
        """Seconds since the Unix epoch. May jump; never decides an order or a lease."""

    def monotonic(self) -> float:
        """Seconds that never go back and stand still while the machine is suspended."""

    def boottime(self) -> float:
        """Seconds that never go back and count suspension (CLOCK_BOOTTIME, clock_gettime(2))."""


class Ids(Protocol):
    """A source of names that nobody else will be given."""

    def token(self, length: int) -> str:
        """`length` characters of `ALPHABET`, each carrying 5 random bits."""

    def uniform(self) -> float:
        """A number in [0, 1), for jitter."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.clock_gettime(_BOOT_CLOCK)


class SystemIds:
    """Randomness of the operating system."""

    def token(self, length: int) -> str:
        return os.urandom(length).translate(_LETTERS).decode("ascii")

    def uniform(self) -> float:
        return int.from_bytes(os.urandom(7), "big") / (1 << 56)


_LETTERS = (ALPHABET * 8).encode("ascii")
"""Of each byte, the letter of its last five bits."""

_BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC already counts suspension."""
