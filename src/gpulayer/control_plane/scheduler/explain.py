"""Decisions in words: verdicts closest first, one sentence, the rows of `gpulayer why`.

Small fleets are told worker by worker. Of large ones, the workers that fail the same checks are one
verdict with a count and examples; `full_table` still gives every worker when it is asked for.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from gpulayer.contracts.decision import (
    Check,
    Decision,
    Fit,
    Outcome,
    Placement,
    Shape,
    Snapshot,
    Verdict,
)
from gpulayer.contracts.ids import ShapeId, WorkerId
from gpulayer.control_plane.scheduler.checks import severity, worst_first
from gpulayer.control_plane.scheduler.columns import Column, Fleet, positions
from gpulayer.control_plane.scheduler.views import Machine

DETAIL = 32
"""Fleets up to this size are told worker by worker."""
_EXAMPLES = 3


class Row(NamedTuple):
    """One line of the table that `why` prints."""

    worker: str
    """`lab-1`, or `lab-1 and 119 more`."""
    fit: Fit
    reason: str


def verdicts(
    fleet: Fleet,
    columns: Sequence[Column],
    detail: int,
    chosen: Collection[WorkerId] = (),
) -> tuple[Verdict, ...]:
    """Closest first. Of a large fleet only the chosen ones, or groups if none is chosen."""
    if len(fleet.machines) <= detail:
        found = [_verdict(columns, machine) for machine in fleet.machines]
    elif chosen:
        found = [_verdict(columns, fleet.machine(worker_id)) for worker_id in chosen]
    else:
        found = [_group(fleet, columns, bits) for bits in fleet.groups(columns).values()]
    return tuple(sorted(found, key=_distance) if len(found) > 1 else found)


def full_table(snapshot: Snapshot, shape_id: ShapeId) -> tuple[Verdict, ...]:
    """Every worker against one shape, as the snapshot has them, closest first."""
    fleet = Fleet(snapshot.workers)
    return verdicts(fleet, fleet.columns(snapshot.shapes[shape_id]), len(fleet.machines))


def rows(decision: Decision) -> list[Row]:
    """The table of `why`: chosen workers first, then the closest."""
    chosen = {placement.worker_id for placement in decision.placements}
    ordered = sorted(decision.verdicts, key=lambda verdict: verdict.worker_id not in chosen)
    return [
        Row(
            _who(verdict),
            verdict.fit,
            "chosen" if verdict.worker_id in chosen else _reason(verdict, limit=3),
        )
        for verdict in ordered
    ]


def placed(placements: Sequence[Placement], told: Iterable[Verdict]) -> str:
    """`placed on lab-1 with 2 GPUs`."""
    names = {verdict.worker_id: verdict.worker_name for verdict in told}
    gpus = len(placements[0].gpus)
    devices = f" with {gpus} GPU{'' if gpus == 1 else 's'}" if gpus else ""
    if len(placements) == 1:
        return f"placed on {names[placements[0].worker_id]}{devices}"
    nodes = Counter(placement.worker_id for placement in placements)
    some = [names[w] + (f" ({n} nodes)" if n > 1 else "") for w, n in list(nodes.items())[:4]]
    where = ", ".join(some)
    if len(nodes) > 4:
        where = f"{len(nodes)} workers: {where}, ..."
    return f"placed on {where}{devices}{' each' if devices else ''}"


def sent_ahead(placements: Sequence[Placement], told: Iterable[Verdict]) -> str:
    """`placed on lab-1, next in line there`."""
    return f"{placed(placements, told)}, next in line there"


def blocked(outcome: Outcome, shape: Shape, told: Sequence[Verdict]) -> str:
    """Why nothing was placed, in one sentence with the numbers of the closest worker."""
    if not told:
        return "no worker is registered yet"
    count = {fit: sum(v.count for v in told if v.fit is fit) for fit in Fit}
    able = sum(count.values()) - count[Fit.NEVER]
    closest = next((v for v in told if v.fit is not Fit.YES), told[0])
    because = f"{closest.worker_name} {_reason(closest, limit=2)}"
    alone = sum(count.values()) == 1
    if shape.nodes > 1 and able:
        is_too_few = able < shape.nodes if shape.distinct else outcome is Outcome.UNSCHEDULABLE
        number, when = (able, "could ever") if is_too_few else (count[Fit.YES], "can")
        part = f"take part{'' if is_too_few else ' now'}"
        if closest.fit is not Fit.YES:
            part = f"{part}; {because}"
        if shape.distinct:
            return f"needs {shape.nodes} workers at once, {number} {when} {part}"
        workers = f"{number} worker{'' if number == 1 else 's'}"
        return f"needs room for {shape.nodes} nodes at once, {workers} {when} {part}"
    if not able:
        sentence = because if alone else f"no worker can run it; closest: {because}"
        fails = outcome is Outcome.UNSCHEDULABLE
        return sentence if fails else f"{sentence}; waits for one that can"
    if kept := next(
        (c for c in closest.checks if c.name == "reservation" and c.fit is Fit.BUSY), None
    ):
        return f"waits behind {kept.have}"
    if count[Fit.BUSY]:
        busy = count[Fit.BUSY]
        return f"waits: {because}" if busy == 1 else f"waits: {busy} workers are busy; {because}"
    return f"waits to learn more: {because}"


def _verdict(columns: Iterable[Column], machine: Machine) -> Verdict:
    made: list[Check] = []
    for column in columns:
        made += column.checks(machine)
    checks = worst_first(made)
    return Verdict(machine.view.worker_id, machine.view.name, checks[0].fit, checks)


def _group(fleet: Fleet, columns: Sequence[Column], bits: int) -> Verdict:
    first, *others = islice(positions(bits), 1 + _EXAMPLES)
    told = _verdict(columns, fleet.machines[first])
    examples = tuple(fleet.machines[other].view.worker_id for other in others)
    return dataclasses.replace(told, count=bits.bit_count(), examples=examples)


def _distance(verdict: Verdict) -> tuple[int, int, float, str]:
    failing = _failing(verdict)
    gap = sum(check.gap for check in failing)
    return severity(verdict.fit), len(failing), gap, verdict.worker_id


def _reason(verdict: Verdict, limit: int) -> str:
    failing = _failing(verdict)
    if not failing:
        return "can run it"
    told = "; ".join(check.sentence() for check in failing[:limit])
    more = len(failing) - limit
    return f"{told}; and {more} more" if more > 0 else told


def _failing(verdict: Verdict) -> list[Check]:
    return [check for check in verdict.checks if check.fit is not Fit.YES]


def _who(verdict: Verdict) -> str:
    more = verdict.count - 1
    return f"{verdict.worker_name} and {more} more" if more else verdict.worker_name
