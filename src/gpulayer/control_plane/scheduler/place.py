"""One pass over the queue: who goes where, and why the others wait.

Jobs are taken by priority, then by age. A shape that cannot be placed blocks only itself, and is
judged and explained once, however many jobs have it. A pass costs shapes times workers at most,
plus what it places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpulayer.contracts.decision import (
    Decision,
    Outcome,
    Pending,
    Placement,
    Sent,
    Shape,
    Snapshot,
    Verdict,
)
from gpulayer.contracts.ids import ShapeId
from gpulayer.control_plane.scheduler import explain
from gpulayer.control_plane.scheduler.ahead import Ahead, waiting_for_room
from gpulayer.control_plane.scheduler.columns import Column, Fleet, positions
from gpulayer.control_plane.scheduler.gang import Candidates


def place(snapshot: Snapshot) -> tuple[Decision, ...]:
    """All decisions of one pass, in the order in which they were made.

    One for each placed job. For each shape that waits, one for the first job that waits with it.
    For a shape that no registered worker could ever run, one `UNSCHEDULABLE` for each of its jobs
    that asked to fail then (`Pending.fail_if_unschedulable`); the others wait.
    The order of queue and workers in the snapshot does not matter.
    """
    return tuple(Pass(snapshot).run())


class Pass:
    """`run` once, to its end; then what follows from it may be asked."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._queue = sorted(snapshot.queue, key=lambda p: (-p.priority, p.seq, p.job_id))
        self._fleet = Fleet(snapshot.workers)
        self._of_shape: dict[ShapeId, list[Pending]] = {}
        for pending in self._queue:
            self._of_shape.setdefault(pending.shape_id, []).append(pending)
        self._detail = int(snapshot.limits.get("detail", explain.DETAIL))
        self._settled = bool(snapshot.limits.get("fleet_settled", True))
        self._ahead = Ahead(self._fleet)
        self._waiting: list[Pending] = []
        """The first of each shape that waits."""
        self._columns: dict[ShapeId, list[Column]] = {}
        self._candidates: dict[ShapeId, Candidates] = {}

    def run(self) -> Iterator[Decision]:
        limit = self._snapshot.limits.get("max_placements")
        left = len(self._queue) if limit is None else int(limit)
        blocked: set[ShapeId] = set()
        for pending in self._queue:
            if not left or len(blocked) == len(self._of_shape):
                return
            if pending.shape_id in blocked:
                continue
            decision = self._placed(pending) or self._sent_ahead(pending)
            if decision is not None:
                left -= 1
                yield decision
            else:
                blocked.add(pending.shape_id)
                self._waiting.append(pending)
                self._ahead.reserve(self._shape(pending), self._columns[pending.shape_id])
                yield from self._blocked(pending)

    def to_recall(self, sent: Sequence[Sent]) -> list[Sent]:
        """Of what was sent ahead, what could begin elsewhere by now, and what a job of higher
        priority waits for the room of."""
        known = {machine.view.worker_id: machine for machine in self._fleet.machines}
        there = [one for one in sent if not one.is_recalled and one.worker_id in known]
        least = min((one.priority for one in there), default=0)
        urgent = [
            (pending.priority, waiting_for_room(self._fleet, self._columns[pending.shape_id]))
            for pending in self._waiting
            if there and pending.priority > least
        ]
        return [
            one
            for one in there
            if any(p > one.priority and bits & known[one.worker_id].bit for p, bits in urgent)
            or self._could_begin_elsewhere(one)
        ]

    def _could_begin_elsewhere(self, one: Sent) -> bool:
        """And takes the room, so that no other is asked back for it."""
        placements = self._candidates_of(one.shape_id).pick()
        if not placements or placements[0].worker_id == one.worker_id:
            return False
        self._fleet.take(placements[0])
        return True

    def _placed(self, pending: Pending) -> Decision | None:
        placements = self._candidates_of(pending.shape_id).pick()
        if not placements:
            return None
        verdicts = self._verdicts(pending, placements)
        for placement in placements:
            self._fleet.take(placement)
        summary = explain.placed(placements, verdicts)
        return _placed(pending, placements, verdicts, summary)

    def _sent_ahead(self, pending: Pending) -> Decision | None:
        """Of a job that has no room now."""
        columns = self._columns[pending.shape_id]
        placements = self._ahead.place(self._shape(pending), columns, pending.priority)
        if not placements:
            return None
        verdicts = self._verdicts(pending, placements)
        summary = explain.sent_ahead(placements, verdicts)
        return _placed(pending, placements, verdicts, summary)

    def _shape(self, pending: Pending) -> Shape:
        return self._snapshot.shapes[pending.shape_id]

    def _candidates_of(self, shape_id: ShapeId) -> Candidates:
        candidates = self._candidates.get(shape_id)
        if candidates is None:
            shape = self._snapshot.shapes[shape_id]
            columns = self._columns[shape_id] = self._fleet.columns(shape)
            candidates = self._candidates[shape_id] = Candidates(self._fleet, shape, columns)
        return candidates

    def _verdicts(self, pending: Pending, placements: Sequence[Placement]) -> tuple[Verdict, ...]:
        chosen = {placement.worker_id for placement in placements}
        columns = self._columns[pending.shape_id]
        return explain.verdicts(self._fleet, columns, self._detail, chosen)

    def _blocked(self, first: Pending) -> Iterator[Decision]:
        """Judge the shape of `first`, the first job of it that cannot be placed."""
        shape_id = first.shape_id
        shape = self._snapshot.shapes[shape_id]
        columns = self._columns[shape_id]
        verdicts = explain.verdicts(self._fleet, columns, self._detail)
        told = [(first, Outcome.WAITING)]
        if self._settled and self._is_hopeless(shape_id, columns):
            # None of them was placed before, so all jobs of the shape are still there to be told.
            jobs = self._of_shape[shape_id]
            told = [(p, Outcome.WAITING) for p in jobs if not p.fail_if_unschedulable][:1]
            told += [(p, Outcome.UNSCHEDULABLE) for p in jobs if p.fail_if_unschedulable]
        for pending, outcome in told:
            summary = explain.blocked(outcome, shape, verdicts)
            yield Decision(pending.job_id, shape_id, outcome, (), verdicts, summary)

    def _is_hopeless(self, shape_id: ShapeId, columns: list[Column]) -> bool:
        """Whether the registered workers, all free and fully known, would still be too few."""
        if not self._fleet.machines:
            return False
        shape = self._snapshot.shapes[shape_id]
        possible = self._fleet.possible(columns)
        return all(
            self._nodes(shape_id, possible & self._fleet.of_target(target)) < shape.nodes
            for target in shape.targets
        )

    def _nodes(self, shape_id: ShapeId, machines: int) -> int:
        """How many nodes of the shape these machines could ever have."""
        shape = self._snapshot.shapes[shape_id]
        if shape.nodes == 1 or shape.distinct:
            return machines.bit_count()
        most = self._candidates[shape_id].most
        return sum(most(self._fleet.machines[i]) for i in positions(machines))


def _placed(
    pending: Pending,
    placements: tuple[Placement, ...],
    verdicts: tuple[Verdict, ...],
    summary: str,
) -> Decision:
    return Decision(pending.job_id, pending.shape_id, Outcome.PLACED, placements, verdicts, summary)
