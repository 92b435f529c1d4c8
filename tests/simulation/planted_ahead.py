"""Faults of ours in what is sent ahead of its room, planted one at a time."""

from __future__ import annotations

from typing import Any

from gpulayer.contracts.decision import Sent
from gpulayer.worker.agent import Agent
from gpulayer.worker.slots import Slots
from tests.simulation.seams import Bug, ChangedStore, ChangedTx, PlaneWithItsStore, drawn_with
from tests.simulation.world import Parts


class EagerSlots(Slots):
    """What was sent ahead begins at once."""

    def take_room(self, now: float) -> None:
        for slot in self.all:
            slot.ahead = False


class SecondHandSlots(Slots):
    """A room is taken although the plane was told that it is free, and has given it away."""

    def take_room(self, now: float) -> None:
        for slot in self.all:
            slot.has_room = slot.has_room or slot.exit_sent is not None
        super().take_room(now)


class AnySizeSlots(Slots):
    """The room of a small task is taken by a larger one."""

    def take_room(self, now: float) -> None:
        sizes = [(slot, slot.size) for slot in self.all]
        for slot in self.all:
            slot.size = (1.0, 0.0)
        super().take_room(now)
        for slot, size in sizes:
            slot.size = size


class Eager(Agent):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.slots = EagerSlots()


class SecondHand(Agent):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.slots = SecondHandSlots()


class AnySize(Agent):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.slots = AnySizeSlots()


class _ForgetfulTx(ChangedTx):
    def sent_ahead(self) -> list[Sent]:
        return []


class Forgets(PlaneWithItsStore):
    """What was sent ahead is never looked at again: not when there is room for it after all."""

    def __init__(self, store: Any, *ports: Any) -> None:
        super().__init__(ChangedStore(store, _ForgetfulTx), *ports)


BUGS_AHEAD = (
    Bug("eager", Parts(agent=Eager, crowded=True)),
    Bug("second hand", Parts(agent=SecondHand, crowded=True)),
    Bug("any size", Parts(agent=AnySize, crowded=True)),
    Bug("forgets", Parts(Forgets, crowded=True, faults=drawn_with(plane_crash=0.0))),
)
