"""Where a planted bug takes hold: a store whose transactions differ, chosen faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from gpulayer.control_plane.plane import ControlPlane
from gpulayer.worker.agent import Agent
from tests.simulation.faults import Faults
from tests.simulation.world import Parts


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    parts: Parts

    @property
    def without(self) -> Parts:
        """The same world with nothing planted."""
        return dataclasses.replace(self.parts, plane=ControlPlane, agent=Agent)


class PlaneWithItsStore(ControlPlane):
    def __init__(self, store: Any, *ports: Any) -> None:
        self.store = store
        super().__init__(store, *ports)


class ChangedTx:
    """A transaction; a subclass changes one thing that it says or does."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


class ChangedStore:
    """A store with such transactions."""

    def __init__(self, store: Any, changed: Callable[[Any], ChangedTx]) -> None:
        self._store = store
        self._changed = changed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, run: Callable[[Any], Any], durable: bool = False) -> Future[Any]:
        answer: Future[Any] = self._store.write(lambda tx: run(self._changed(tx)), durable)
        return answer

    def write_both(
        self, first: Callable[[Any], Any], second: Callable[[Any], Any], durable: bool = False
    ) -> Any:
        return self._store.write_both(
            lambda tx: first(self._changed(tx)), lambda tx: second(self._changed(tx)), durable
        )


def drawn_with(**faults: Any) -> Callable[[Faults], Faults]:
    """Those that the seed draws, but for these."""
    return lambda drawn: dataclasses.replace(drawn, **faults)


NO_CRASHES: dict[str, float] = {
    "plane_crash": 0.0,
    "agent_crash": 0.0,
    "supervisor_crash": 0.0,
    "both_crash": 0.0,
    "suspended": 0.0,
    "stopped": 0.0,
    "drained": 0.0,
    "copied": 0.0,
    "revoked": 0.0,
}
CUTS_ALONE = NO_CRASHES | {"cut": 25.0, "delay": 0.05}
CUTS_OFTEN = CUTS_ALONE | {"cut": 10.0, "drop": 0.0}
SLOW_ALONE = NO_CRASHES | {"cut": 0.0, "delay": 3.0, "drop": 0.0}
STOPS_ALONE = NO_CRASHES | {"stopped": 12.0, "cut": 0.0, "delay": 0.001, "drop": 0.0, "double": 0.0}
PLANE_ALONE = NO_CRASHES | {"plane_crash": 8.0, "at_statement": 0.0, "cut": 0.0, "delay": 0.5}
