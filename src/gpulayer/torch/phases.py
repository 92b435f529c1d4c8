"""Where the time of training goes, always counted: half a microsecond a step."""

from __future__ import annotations

from time import perf_counter

DATA, STEP, OPTIMISER, CALLBACKS, VALIDATION = range(5)
NAMES = ("data", "forward and backward", "optimiser", "callbacks and logging", "validation")


class Phases:
    """A clock that is read where one phase ends and the next begins.

    On a GPU these are the times that Python waited in each: what the device does meanwhile is
    waited for where a value is read.
    """

    __slots__ = ("_last", "_spent")

    def __init__(self) -> None:
        self._spent = [0.0] * len(NAMES)
        self._last = perf_counter()

    def begin(self) -> None:
        """What came before this belongs to no phase."""
        self._last = perf_counter()

    def end(self, phase: int) -> None:
        """What came since the last end was this phase."""
        now = perf_counter()
        self._spent[phase] += now - self._last
        self._last = now

    @property
    def seconds(self) -> dict[str, float]:
        """What each phase has taken so far."""
        return dict(zip(NAMES, self._spent, strict=True))

    def table(self, steps: int) -> str:
        """A line for each phase: its share, its seconds, and milliseconds per step."""
        total = sum(self._spent) or 1.0
        lines = [f"{'':22}  share  seconds  ms/step"]
        for name, spent in self.seconds.items():
            each = 1000 * spent / max(1, steps)
            lines.append(f"{name:22} {spent / total:6.1%} {spent:8.2f} {each:8.3f}")
        return "\n".join(lines)
