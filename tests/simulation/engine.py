"""Virtual time: a heap of (time, number, call), one random source, one trace.

The same seed gives the same run to the byte; the digest of the trace proves it. Nothing in here
knows what is simulated.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable

from gpulayer.clock import ALPHABET

Call = Callable[[], None]


class Timer:
    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call: Call | None = call

    def cancel(self) -> None:
        self.call = None


class Engine:
    """`now` is true time in seconds from the beginning of the run."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.now = 0.0
        self.rng = random.Random(seed)
        self.events = 0
        self.lines: list[str] | None = [] if keep_trace else None
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = 0
        self._digest = hashlib.sha256()

    def after(self, delay: float, call: Call) -> Timer:
        """Call once, `delay` seconds from now; calls of one instant keep their order."""
        self._numbers += 1
        timer = Timer(call)
        heapq.heappush(self._heap, (self.now + max(0.0, delay), self._numbers, timer))
        return timer

    def run(
        self, until: float, *, after_each: Call, done: Callable[[], bool] | None = None
    ) -> None:
        """Carry out everything up to that time, or until `done` says so."""
        while self._heap and self._heap[0][0] <= until:
            if done is not None and done():
                return
            at, _, timer = heapq.heappop(self._heap)
            if timer.call is None:
                continue
            self.now = at
            self.events += 1
            timer.call()
            after_each()
        self.now = max(self.now, until)

    def note(self, who: str, what: str) -> None:
        """One line of the trace."""
        line = f"{self.now:12.6f} {who:<10} {what}"
        self._digest.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    def digest(self) -> str:
        return self._digest.hexdigest()

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def soon(self, mean: float) -> float:
        """An exponential delay."""
        return self.rng.expovariate(1.0 / mean) if mean > 0 else 0.0


class Share:
    """A machine's part of the engine, or a process's: while it is suspended nothing of it runs,
    and what fell due meanwhile runs when it goes on, in its order. Clocks do not stop for it."""

    def __init__(self, engine: Engine, machine: Share | None = None) -> None:
        """`machine`: that this process is suspended with."""
        self._engine = engine
        self._machine = machine
        self._until = float("-inf")

    def suspend(self, seconds: float) -> None:
        self._until = max(self._until, self._engine.now + seconds)

    @property
    def goes_on_at(self) -> float:
        machine = self._machine.goes_on_at if self._machine is not None else float("-inf")
        return max(self._until, machine)

    @property
    def sleeps(self) -> bool:
        return self._engine.now < self.goes_on_at

    def after(self, delay: float, call: Call) -> Timer:
        """As the engine's, but not before it goes on."""
        timer = Timer(call)
        self._engine.after(delay, lambda: self._run(timer))
        return timer

    def _run(self, timer: Timer) -> None:
        if timer.call is None:
            return
        if self.sleeps:
            self._engine.after(self.goes_on_at - self._engine.now, lambda: self._run(timer))
        else:
            timer.call()


class EngineClock:
    """A machine's clocks. `rate` is how fast its quartz runs; `jump` moves its wall clock only."""

    def __init__(self, engine: Engine, *, rate: float = 1.0, base: float = 1_000.0) -> None:
        self._engine = engine
        self._rate = rate
        self._base = base
        self._wall = 1_700_000_000.0

    def now(self) -> float:
        return self._wall + self._engine.now

    def monotonic(self) -> float:
        return self._base + self._engine.now * self._rate

    def boottime(self) -> float:
        return self.monotonic()

    def jump(self, seconds: float) -> None:
        self._wall += seconds

    def until(self, boottime: float) -> float:
        """True seconds from now until that boot time."""
        return (boottime - self._base) / self._rate - self._engine.now


class EngineIds:
    """Names and jitter from the run's random source."""

    def __init__(self, engine: Engine) -> None:
        self._rng = engine.rng

    def token(self, length: int) -> str:
        return "".join(self._rng.choices(ALPHABET, k=length))

    def uniform(self) -> float:
        return self._rng.random()
