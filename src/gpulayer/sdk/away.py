"""Asking a server that may be away: again and again, for as long as jobs go on without it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from gpulayer.clock import SystemClock
from gpulayer.errors import UnreachableError

T = TypeVar("T")

LOST_SECONDS = 600.0
"""How long a server may be away before it is given up; as long as a worker's grace."""
QUIET_SECONDS = 3.0
"""A server that is back by then was being restarted, which is no news."""
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 1.0


def asked_until_back(
    ask: Callable[[], T],
    closed: threading.Event,
    *,
    on_lost: Callable[[UnreachableError], object] = lambda error: None,
    on_back: Callable[[], object] = lambda: None,
    lost_seconds: float = LOST_SECONDS,
) -> T:
    """What `ask` answers, asked again while it raises UnreachableError.

    Raises it once `closed` is set or the time is up. `on_lost` is called once when the silence is
    worth a word, and `on_back` if it ends after that.
    """
    clock = SystemClock()
    since, pause, is_told = 0.0, _FIRST_PAUSE, False
    while True:
        try:
            found = ask()
        except UnreachableError as error:
            now = clock.monotonic()
            since = since or now
            if now >= since + QUIET_SECONDS and not is_told:
                is_told = True
                on_lost(error)
            if now >= since + lost_seconds or closed.wait(pause):
                raise
            pause = min(_LAST_PAUSE, pause * 2)
        else:
            if is_told:
                on_back()
            return found
