"""Short jobs that are sent along before there is room for them, and asked back.

A worker that ends a task every few milliseconds would idle while that is told and the next one
comes. So it is given some more jobs of the sizes that run there: each begins when a task of its
size ends, without another word. They hold nothing until then, and they never pass anybody: a worker
whose next room an earlier job of the queue waits for is sent nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from gpulayer.contracts.decision import Allocation, Fit, Placement, Sent, Shape, WorkerView
from gpulayer.contracts.ids import WorkerId
from gpulayer.control_plane.scheduler.columns import Column, Fleet
from gpulayer.control_plane.scheduler.views import machines_of, micro

EACH = 8
"""Most jobs that are sent ahead of one that runs."""

_ROOM = frozenset({"cpu_cores", "memory"})
"""Checks that the end of a task of the same size makes pass."""


def depth(pace: float | None, seconds: float) -> int:
    """How many jobs a worker may be sent for each that runs: `seconds` of work. `pace`: seconds
    that its newest tasks ran, or None."""
    if pace is None:
        return 0
    return EACH if pace * EACH <= seconds else int(seconds / pace)


def with_begun(views: Iterable[WorkerView], begun: Sequence[Sent]) -> tuple[WorkerView, ...]:
    """The workers once these hold what they need."""
    held: dict[WorkerId, list[Allocation]] = {}
    for one in begun:
        got = Allocation(one.task_id, one.job_id, one.cpu_cores, one.memory_gb)
        held.setdefault(one.worker_id, []).append(got)
    return tuple(
        dataclasses.replace(view, allocations=(*view.allocations, *held[view.worker_id]))
        if view.worker_id in held
        else view
        for view in views
    )


def to_begin(views: Iterable[WorkerView], sent: Sequence[Sent]) -> list[Sent]:
    """Those for which their worker has room now: what was in its way was of another size, or ended
    before they came. Oldest first."""
    waiting: dict[WorkerId, list[Sent]] = {}
    for one in sent:
        if not one.is_recalled:
            waiting.setdefault(one.worker_id, []).append(one)
    found: list[Sent] = []
    for machine in machines_of(view for view in views if view.worker_id in waiting):
        for one in waiting[machine.view.worker_id]:
            free = machine.now.amounts
            if micro(one.cpu_cores) <= free.free_cores and micro(one.memory_gb) <= max(
                free.free_memory, 0
            ):
                machine.take(Placement(one.worker_id, 0, one.cpu_cores, one.memory_gb, ()))
                found.append(one)
    return found


def waiting_for_room(fleet: Fleet, columns: Sequence[Column]) -> int:
    """Bits of the machines that lack nothing but free cores or memory."""
    return sum(
        bits
        for failing, bits in fleet.groups(columns).items()
        if failing and all(name in _ROOM and fit is Fit.BUSY for name, fit in failing)
    )


class Ahead:
    """What may be sent ahead in one pass."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._sent = {m.position: len(m.view.sent) for m in fleet.machines if m.view.ahead > 0}
        self._waits: dict[Shape, int] = {}
        self._reserved = 0
        """Bits of the machines whose next room an earlier job waits for."""

    def place(
        self, shape: Shape, columns: Sequence[Column], priority: int
    ) -> tuple[Placement, ...]:
        """Where the next job of a shape that has no room now is sent; empty: nowhere."""
        if not self._sent or shape.nodes > 1 or shape.gpus:
            return ()
        size = (shape.cpu_cores, shape.memory_gb or 0.0)
        bits = self._waits_for_room(shape, columns) & ~self._reserved & ~self._fleet.held
        able = [at for at in self._sent if bits >> at & 1 and self._takes(at, size, priority)]
        if not able:
            return ()
        best = max(able, key=lambda at: (self._left(at), -at))
        self._sent[best] += 1
        worker_id = self._fleet.machines[best].view.worker_id
        return (Placement(worker_id, 0, *size, (), ahead=True),)

    def is_next(self, shape: Shape, columns: Sequence[Column]) -> bool:
        """Whether short tasks of that size run where the next room is its own, and as many as may
        be are sent ahead of them: it begins within moments."""
        if not self._sent or shape.nodes > 1 or shape.gpus:
            return False
        size = (shape.cpu_cores, shape.memory_gb or 0.0)
        bits = self._waits_for_room(shape, columns)
        return any(bits >> at & 1 and self._runs(at, size) for at in self._sent)

    def reserve(self, shape: Shape, columns: Sequence[Column]) -> None:
        """A job of that shape goes on waiting: nobody behind it passes it by."""
        if self._sent:
            self._reserved |= self._waits_for_room(shape, columns)

    def _waits_for_room(self, shape: Shape, columns: Sequence[Column]) -> int:
        """As of the first time that it is asked: a machine only ever fills up during a pass."""
        if shape not in self._waits:
            self._waits[shape] = waiting_for_room(self._fleet, columns)
        return self._waits[shape]

    def _left(self, at: int) -> int:
        machine = self._fleet.machines[at]
        return machine.view.ahead * machine.now.tasks - self._sent[at]

    def _takes(self, at: int, size: tuple[float, float], priority: int) -> bool:
        """Whether it may have one more, tasks of that size run there, and it would not stand
        behind what is less urgent."""
        view = self._fleet.machines[at].view
        return (
            self._runs(at, size)
            and self._left(at) > 0
            and priority <= min(view.sent, default=priority)
        )

    def _runs(self, at: int, size: tuple[float, float]) -> bool:
        """Whether tasks of that size run there."""
        held = self._fleet.machines[at].view.allocations
        return any((a.cpu_cores, a.memory_gb) == size and not a.gpus for a in held)
