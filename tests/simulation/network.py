"""Calls from clients and agents to the plane over a link that loses, doubles and delays.

A call ends exactly once for its caller as answered or failed; the plane may have carried it out
none, one or two times. A late or doubled answer still arrives: it is the caller's to know better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.simulation.engine import Engine
from tests.simulation.faults import Faults

Answer = Callable[[Any], None]
Execute = Callable[[Answer], None]
"""Carried out at the plane; answers by what it is given, now or later."""


class Host(Protocol):
    """The plane's side."""

    def admit(self, execute: Execute, answer: Answer) -> bool:
        """Carry out; False where nobody listens."""


@dataclass(slots=True)
class Link:
    """One machine's way to the plane."""

    cut_until: float = -1.0
    mute_until: float = -1.0
    """Nothing that it says arrives."""
    deaf_until: float = -1.0
    """Nothing that it is answered arrives."""
    open_calls: dict[int, Callable[[], None]] = field(default_factory=dict)
    """What ends each call whose answer has not come."""


class Network:
    def __init__(self, engine: Engine, host: Host) -> None:
        self._engine = engine
        self._host = host
        self._links: list[Link] = []
        self._calls = 0
        self.faults = Faults()

    def link(self) -> Link:
        made = Link()
        self._links.append(made)
        return made

    def call(
        self,
        link: Link,
        execute: Execute,
        answered: Answer,
        failed: Callable[[], None],
        limit: float,
    ) -> None:
        """`limit`: seconds after which the caller gives up."""
        self._calls += 1
        number, engine = self._calls, self._engine
        giving_up = engine.after(limit, lambda: end())

        def end() -> None:
            if link.open_calls.pop(number, None) is not None:
                giving_up.cancel()
                failed()

        def deliver(value: Any) -> None:
            if link.open_calls.pop(number, None) is not None:
                giving_up.cancel()
            answered(value)

        def answer(value: Any) -> None:
            for _ in range(self._copies(link.deaf_until, link.cut_until)):
                engine.after(self._transit(), lambda: deliver(value))

        def arrive() -> None:
            if not self._host.admit(execute, answer):
                engine.after(0.0005, end)

        link.open_calls[number] = end
        for _ in range(self._copies(link.mute_until, link.cut_until)):
            engine.after(self._transit(), arrive)

    def hang_up(self) -> None:
        """The plane's process ended: every connection to it is closed."""
        for link in self._links:
            for end in tuple(link.open_calls.values()):
                self._engine.after(self._transit(), end)

    def _copies(self, *cut_until: float) -> int:
        if self._engine.now < max(cut_until) or self._engine.chance(self.faults.drop):
            return 0
        return 2 if self._engine.chance(self.faults.double) else 1

    def _transit(self) -> float:
        return self._engine.soon(self.faults.delay)
