"""One pass over the queue: who goes where, and why the others wait.

Jobs are taken by priority, then by age. The first that must wait is given a reservation
(`reserve`); behind it those of a priority come by their time limits, the shortest first, where they
are not in its way. A shape that cannot be placed blocks only itself. Shapes that differ in their
limit alone are one kind, judged and explained once, however many jobs have it. A pass costs kinds
times workers at most, plus what it places.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

from gpulayer.contracts.decision import (
    Decision,
    Hold,
    Outcome,
    Pending,
    Placement,
    Sent,
    Shape,
    Snapshot,
    Verdict,
)
from gpulayer.contracts.ids import JobId, ShapeId
from gpulayer.control_plane.scheduler import explain, reserve
from gpulayer.control_plane.scheduler.ahead import Ahead, waiting_for_room
from gpulayer.control_plane.scheduler.columns import Fleet, positions
from gpulayer.control_plane.scheduler.gang import Candidates
from gpulayer.control_plane.scheduler.shapes import without_limit
from gpulayer.control_plane.scheduler.views import outlives


def place(snapshot: Snapshot) -> tuple[Decision, ...]:
    """All decisions of one pass, in the order in which they were made.

    One for each placed job. For each shape that waits, one for the first job that waits with it.
    For a shape that no registered worker could ever run, one `UNSCHEDULABLE` for each of its jobs
    that asked to fail then (`Pending.fail_if_unschedulable`); the others wait.
    The order of queue and workers in the snapshot does not matter.
    """
    return tuple(Pass(snapshot).run())


_TRIES = 4
"""Kinds of jobs that must wait, looked at for one whose start can be told. More would cost."""


class Kind:
    """What is judged once: shapes that differ in their limit alone, on one side of the
    reservation."""

    def __init__(self, fleet: Fleet, shape: Shape, outlives: bool) -> None:
        self._fleet = fleet
        self.shape = shape
        """Without its limit."""
        self._outlives = outlives
        self.columns = fleet.columns(shape, outlives)
        self._candidates: Candidates | None = None
        self._version = -1
        """Of the fleet, when it was told last."""
        self._told: tuple[tuple[Verdict, ...], dict[Outcome, str]] = ((), {})

    @property
    def candidates(self) -> Candidates:
        if self._candidates is None:
            self._candidates = Candidates(self._fleet, self.shape, self.columns, self._outlives)
        return self._candidates

    @cached_property
    def is_hopeless(self) -> bool:
        """Whether the registered workers, all free and fully known, would still be too few. No
        placement changes that."""
        if not self._fleet.machines:
            return False
        possible = self._fleet.possible(self.columns)
        return all(
            self._nodes(possible & self._fleet.of_target(target)) < self.shape.nodes
            for target in self.shape.targets
        )

    def _nodes(self, machines: int) -> int:
        """How many nodes of the shape these machines could ever have."""
        if self.shape.nodes == 1 or self.shape.distinct:
            return machines.bit_count()
        most = self.candidates.most
        return sum(most(self._fleet.machines[i]) for i in positions(machines))

    def told(self, detail: int) -> tuple[Verdict, ...]:
        """Why it waits."""
        if self._version != self._fleet.version:
            self._version = self._fleet.version
            self._told = (explain.verdicts(self._fleet, self.columns, detail), {})
        return self._told[0]

    def summary(self, outcome: Outcome) -> str:
        """The same in a sentence; asked after `told`."""
        verdicts, words = self._told
        if outcome not in words:
            words[outcome] = explain.blocked(outcome, self.shape, verdicts)
        return words[outcome]


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
        self._kinds: dict[ShapeId, Kind] = {}
        self._known: dict[tuple[Shape, bool], Kind] = {}
        self._start: float | None = None
        """Of the job that has the reservation; None: not known."""
        self._tries = _TRIES
        """Kinds of which a job may still ask for a reservation in this pass."""
        self._asked: set[Kind] = set()
        for machine in self._fleet.machines:
            if machine.view.hold is not None:
                self._start = machine.view.hold.until

    def run(self) -> Iterator[Decision]:
        limit = self._snapshot.limits.get("max_placements")
        left = len(self._queue) if limit is None else int(limit)
        heads = self._snapshot.limits.get("heads", math.inf)
        blocked: set[ShapeId] = set()
        done: Counter[ShapeId] = Counter()
        queue = self._queue
        at = 0
        while at < len(queue):
            pending = queue[at]
            at += 1
            if not left or len(blocked) == len(self._of_shape):
                return
            if pending.shape_id in blocked:
                continue
            decision = self._placed(pending) or self._sent_ahead(pending)
            if decision is not None:
                left -= 1
                yield decision
                done[pending.shape_id] += 1
                if heads <= len(self._of_shape[pending.shape_id]) == done[pending.shape_id]:
                    return  # its next ones, which were left out, may come before what follows
                continue
            blocked.add(pending.shape_id)
            self._waiting.append(pending)
            self._ahead.reserve(self._shape(pending), self._kind(pending.shape_id).columns)
            was_held = self._fleet.held
            yield from self._blocked(pending)
            if self._fleet.held != was_held:
                queue[at:] = sorted(queue[at:], key=self._shortest_first)

    def _shortest_first(self, pending: Pending) -> tuple[int, float, int, JobId]:
        limit = self._shape(pending).limit
        return (
            -pending.priority,
            math.inf if limit is None else limit,
            pending.seq,
            pending.job_id,
        )

    def to_recall(self, sent: Sequence[Sent]) -> list[Sent]:
        """Of what was sent ahead, what could begin elsewhere by now, what a job of higher priority
        waits for the room of, and what would begin in room that is kept."""
        known = {machine.view.worker_id: machine for machine in self._fleet.machines}
        there = [one for one in sent if not one.is_recalled and one.worker_id in known]
        least = min((one.priority for one in there), default=0)
        urgent = [
            (pending.priority, waiting_for_room(self._fleet, self._kind(pending.shape_id).columns))
            for pending in self._waiting
            if there and pending.priority > least
        ]
        return [
            one
            for one in there
            if known[one.worker_id].bit & self._fleet.held
            or any(p > one.priority and bits & known[one.worker_id].bit for p, bits in urgent)
            or self._could_begin_elsewhere(one)
        ]

    def _could_begin_elsewhere(self, one: Sent) -> bool:
        """And takes the room, so that no other is asked back for it."""
        placements = self._kind(one.shape_id).candidates.pick()
        if not placements or placements[0].worker_id == one.worker_id:
            return False
        self._fleet.take(placements[0])
        return True

    def _placed(self, pending: Pending) -> Decision | None:
        placements = self._kind(pending.shape_id).candidates.pick()
        if not placements:
            return None
        verdicts = self._verdicts(pending, placements)
        until = self._until(self._shape(pending))
        for placement in placements:
            self._fleet.take(placement, until)
        summary = explain.placed(placements, verdicts)
        return _placed(pending, placements, verdicts, summary)

    def _sent_ahead(self, pending: Pending) -> Decision | None:
        """Of a job that has no room now."""
        columns = self._kind(pending.shape_id).columns
        placements = self._ahead.place(self._shape(pending), columns, pending.priority)
        if not placements:
            return None
        verdicts = self._verdicts(pending, placements)
        summary = explain.sent_ahead(placements, verdicts)
        return _placed(pending, placements, verdicts, summary)

    def _shape(self, pending: Pending) -> Shape:
        return self._snapshot.shapes[pending.shape_id]

    def _until(self, shape: Shape) -> float | None:
        """When its limit would end a job that begins now."""
        now = self._snapshot.limits.get("now")
        return None if shape.limit is None or now is None else now + shape.limit

    def _kind(self, shape_id: ShapeId) -> Kind:
        kind = self._kinds.get(shape_id)
        if kind is None:
            shape = self._snapshot.shapes[shape_id]
            is_held = bool(self._fleet.held) and not shape.nested
            over = is_held and outlives(self._until(shape), self._start)
            base = shape if shape.limit is None else without_limit(shape)
            kind = self._known.get((base, over))
            if kind is None:
                kind = self._known[base, over] = Kind(self._fleet, base, over)
            self._kinds[shape_id] = kind
        return kind

    def _reserved(self, first: Pending) -> tuple[Hold, ...]:
        """What is kept from now on for a job that waits, if nobody has a reservation yet. One
        that will have the next room of its size in a moment needs none, nor does anybody behind
        it yet."""
        now = self._snapshot.limits.get("now")
        kind, fleet = self._kind(first.shape_id), self._fleet
        if now is None or fleet.held or not self._tries or kind in self._asked:
            return ()
        if self._ahead.is_next(self._shape(first), kind.columns):
            self._tries = 0
            return ()
        self._tries -= 1
        self._asked.add(kind)
        candidates = kind.candidates
        able = fleet.releasable(kind.columns)
        start = reserve.earliest(fleet, kind.shape, candidates, able, now)
        if start is not None:
            holds = reserve.holds(fleet, kind.shape, candidates, first.job_id, start)
        elif first.since is not None and now - first.since >= reserve.PATIENCE:
            holds = reserve.gathered(fleet, kind.shape, candidates, first.job_id, able)
        else:
            return ()
        for hold in holds:
            fleet.keep(hold)
        if holds:
            self._start = None if start is None else start.at
            # Which of the others would outlive it was not known before.
            self._kinds = {p.shape_id: self._kinds[p.shape_id] for p in self._waiting}
        return holds

    def _verdicts(self, pending: Pending, placements: Sequence[Placement]) -> tuple[Verdict, ...]:
        chosen = {placement.worker_id for placement in placements}
        columns = self._kind(pending.shape_id).columns
        return explain.verdicts(self._fleet, columns, self._detail, chosen)

    def _blocked(self, first: Pending) -> Iterator[Decision]:
        """Judge the shape of `first`, the first job of it that cannot be placed."""
        shape_id, kind = first.shape_id, self._kind(first.shape_id)
        verdicts = kind.told(self._detail)
        told = [(first, Outcome.WAITING)]
        holds: tuple[Hold, ...] = ()
        if self._settled and kind.is_hopeless:
            # None of them was placed before, so all jobs of the shape are still there to be told.
            jobs = self._of_shape[shape_id]
            told = [(p, Outcome.WAITING) for p in jobs if not p.fail_if_unschedulable][:1]
            told += [(p, Outcome.UNSCHEDULABLE) for p in jobs if p.fail_if_unschedulable]
        else:
            holds = self._reserved(first)
        for pending, outcome in told:
            summary = kind.summary(outcome)
            yield Decision(pending.job_id, shape_id, outcome, (), verdicts, summary, holds)


def _placed(
    pending: Pending,
    placements: tuple[Placement, ...],
    verdicts: tuple[Verdict, ...],
    summary: str,
) -> Decision:
    return Decision(pending.job_id, pending.shape_id, Outcome.PLACED, placements, verdicts, summary)
