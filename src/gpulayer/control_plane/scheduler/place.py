"""One pass over the queue: who goes where, and why the others wait.

Jobs are taken by priority, then by age. The first that must wait is given a reservation
(`reserve`); behind it, where they are not in its way, those of a priority that have waited long for
their length and size come first. A shape that cannot be placed blocks only itself. Shapes that
differ in their limit alone are one kind, judged and explained once, however many jobs have it. A
pass costs kinds times workers at most, plus what it places.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

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
from gpulayer.contracts.ids import JobId, ShapeId, WorkerId
from gpulayer.control_plane.scheduler import explain, reserve
from gpulayer.control_plane.scheduler.ahead import Ahead, waiting_for_room
from gpulayer.control_plane.scheduler.columns import Fleet, positions
from gpulayer.control_plane.scheduler.kinds import Kind
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
                queue[at:] = sorted(queue[at:], key=self._most_due)

    @property
    def start(self) -> float | None:
        """Of the job that has the reservation; None: nobody has one, or it is not known."""
        return self._start

    def would_place(self, shape: Shape) -> tuple[Placement, ...]:
        """Where one more job would begin now, behind all others; empty: nowhere. Nothing is
        taken."""
        return self._kind_of(shape).candidates.pick()

    def could_place(self, shape: Shape) -> bool:
        """Whether these workers, all free and fully known, would be enough for it."""
        return bool(self._fleet.machines) and not self._kind_of(shape).is_hopeless

    def able(self, shape: Shape) -> frozenset[WorkerId]:
        """Workers that nothing rules out for ever."""
        bits = self._fleet.possible(self._kind_of(shape).columns)
        return frozenset(self._fleet.machines[at].view.worker_id for at in positions(bits))

    def judged(self, pending: Pending) -> Decision:
        """Of one more job behind all others, whose shape the snapshot has. To be asked last."""
        self._of_shape[pending.shape_id] = [pending]
        return self._placed(pending) or next(self._blocked(pending))

    def _most_due(self, pending: Pending) -> tuple[int, float, float, int, JobId]:
        """Who waits long for its length and size goes first: `WFP3` of Tang and others, "Fault-
        aware, utility-based job scheduling on Blue Gene/P", CLUSTER 2009. Of those that have not
        waited the shortest, and last those without a limit."""
        shape = self._shape(pending)
        limit = math.inf if shape.limit is None else max(shape.limit, 1.0)
        now = self._snapshot.limits.get("now", 0.0)
        waited = max(0.0, now - pending.since) if pending.since is not None else 0.0
        due = (waited / limit) ** 3 * max(1, shape.gpus * shape.nodes)
        return (-pending.priority, -due, limit, pending.seq, pending.job_id)

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
            kind = self._kinds[shape_id] = self._kind_of(self._snapshot.shapes[shape_id])
        return kind

    def _kind_of(self, shape: Shape) -> Kind:
        is_held = bool(self._fleet.held) and not shape.nested
        over = is_held and outlives(self._until(shape), self._start)
        base = shape if shape.limit is None else without_limit(shape)
        kind = self._known.get((base, over))
        if kind is None:
            kind = self._known[base, over] = Kind(self._fleet, base, over)
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
