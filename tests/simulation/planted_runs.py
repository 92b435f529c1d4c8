"""Faults of ours in runs of elements, planted one at a time."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.agent import Agent
from tests.simulation.seams import (
    NO_CRASHES,
    Bug,
    ChangedStore,
    ChangedTx,
    PlaneWithItsStore,
    drawn_with,
)
from tests.simulation.world import Parts


class _UncountedTx(ChangedTx):
    def live_count(self, job_id: Any) -> int:
        return 0


class NoLimit(PlaneWithItsStore):
    """More runs of an array go out than it may have at one time."""

    def __init__(self, store: Any, *ports: Any) -> None:
        super().__init__(ChangedStore(store, _UncountedTx), *ports)


class Promises(Agent):
    """Of a run that goes on, the rest is told to have succeeded with what has."""

    def handle(self, event: heard.Event, now: float) -> list[say.Instruction]:
        slot = self.slots.get(event.task_id) if isinstance(event, heard.ElementsDone) else None
        if isinstance(event, heard.ElementsDone) and slot is not None:
            done, named = event.elements, {one["index"] for one in event.elements}
            rest = [{**done[-1], "index": index} for index in slot.indices if index not in named]
            event = dataclasses.replace(event, elements=(*done, *rest))
        return super().handle(event, now)


BUGS_OF_RUNS = (
    Bug("no limit", Parts(NoLimit, runs=True)),
    Bug("promises", Parts(agent=Promises, runs=True, faults=drawn_with(**NO_CRASHES))),
)
