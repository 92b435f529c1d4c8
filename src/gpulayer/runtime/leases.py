"""How long tasks may run without a word of the agent: its authority, kept where nothing freezes.

The agent ends a task itself before the plane may give it out again. One that is stopped or dead
does not, so it says with each acknowledgement until when which tasks may run, and the supervisor
ends those whose time runs out. Times are of the clock that counts suspension (CLOCK_BOOTTIME,
clock_gettime(2)); timers do not, so a machine that slept is noticed within `LOOK_SECONDS`.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpulayer.runtime.loop import Loop, Timer

LOOK_SECONDS = 1.0
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Leases:
    """`end` is called with each task whose time is over, once."""

    def __init__(self, loop: Loop, end: Callable[[str], object]) -> None:
        self._loop = loop
        self._end = end
        self._until: dict[str, float] = {}
        self._timer: Timer | None = None

    def renew(self, until: Mapping[str, float]) -> None:
        """Only these tasks have a time; all others run on."""
        self._until = dict(until)
        self._look()

    def allow(self, until: float | None) -> bool:
        """Whether a task that may be started until then may be: whoever asked was perhaps stopped
        for a while before it did."""
        return until is None or time.clock_gettime(_BOOT_CLOCK) < until

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = time.clock_gettime(_BOOT_CLOCK)
        for task_id in [task_id for task_id, at in self._until.items() if at <= now]:
            del self._until[task_id]
            self._end(task_id)
        if self._until:
            left = min(self._until.values()) - now
            self._timer = self._loop.after(min(left, LOOK_SECONDS), self._look)
