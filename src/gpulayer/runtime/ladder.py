"""Ending a job step by step: INT, TERM, KILL, each after the grace that the one before had."""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gpulayer.runtime.body import Body
    from gpulayer.runtime.keeper import Keeper
    from gpulayer.runtime.loop import Loop, Timer

MODES = {"int": 0, "term": 1, "kill": 2}
_STEPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class Ladder:
    """Climbs only: asking again for a step that was taken changes nothing."""

    def __init__(self, loop: Loop, body: Body | Keeper) -> None:
        self._loop = loop
        self._body = body
        self._next = 0
        self._timer: Timer | None = None

    def climb(self, mode: str, grace_seconds: float) -> None:
        """Takes the step `mode` at once, and the later ones by itself while the job lives."""
        step = MODES[mode]
        if step >= self._next:
            self._take(step, grace_seconds)

    def leave(self) -> None:
        """The job has ended."""
        if self._timer is not None:
            self._timer.cancel()
        self._next = len(_STEPS)

    def _take(self, step: int, grace_seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = step + 1
        if _STEPS[step] == signal.SIGKILL:
            self._body.kill()
            return
        self._body.signal(_STEPS[step])
        self._body.signal(signal.SIGCONT)  # a stopped job could not act on it
        self._timer = self._loop.after(grace_seconds, lambda: self._take(step + 1, grace_seconds))
