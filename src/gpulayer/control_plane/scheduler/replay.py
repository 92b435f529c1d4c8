"""Decisions, and all they were made from, as plain JSON that can be run again.

A record holds one job, its shape and the workers as that decision saw them, so it stands alone.
`shapes.canonical` of any of these is their one text: equal content, equal bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.decision import (
    Allocation,
    Check,
    Decision,
    Fit,
    Hold,
    Outcome,
    Pending,
    Placement,
    Snapshot,
    Verdict,
    WorkerView,
)
from gpulayer.contracts.ids import JobId, ShapeId
from gpulayer.control_plane.scheduler.place import place
from gpulayer.control_plane.scheduler.shapes import shape_from_json, shape_to_json
from gpulayer.control_plane.scheduler.views import micro, outlives


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """Plain JSON types; tuples stand for lists."""
    return dataclasses.asdict(decision)


def decision_from_json(data: Mapping[str, Any]) -> Decision:
    """The opposite of `decision_to_json`. Unknown keys are ignored."""
    return Decision(
        job_id=JobId(data["job_id"]),
        shape_id=ShapeId(data["shape_id"]),
        outcome=Outcome(data["outcome"]),
        placements=tuple(_read(Placement, p) for p in data["placements"]),
        verdicts=tuple(_verdict(v) for v in data["verdicts"]),
        summary=data["summary"],
        holds=tuple(_read(Hold, h) for h in data.get("holds", ())),
    )


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Plain JSON types, in an order that does not depend on the snapshot's own."""
    queue = sorted(snapshot.queue, key=lambda p: (-p.priority, p.seq, p.job_id))
    workers = sorted(snapshot.workers, key=lambda w: w.worker_id)
    return {
        "shapes": {name: shape_to_json(shape) for name, shape in snapshot.shapes.items()},
        "queue": [dataclasses.asdict(pending) for pending in queue],
        "workers": [_view_to_json(view) for view in workers],
        "limits": dict(snapshot.limits),
    }


def snapshot_from_json(data: Mapping[str, Any]) -> Snapshot:
    """The opposite of `snapshot_to_json`. Unknown keys are ignored."""
    return Snapshot(
        shapes={ShapeId(k): shape_from_json(v) for k, v in data["shapes"].items()},
        queue=tuple(_read(Pending, p) for p in data["queue"]),
        workers=tuple(_view(w) for w in data["workers"]),
        limits=data.get("limits", {}),
    )


def as_seen(
    snapshot: Snapshot, decisions: Iterable[Decision]
) -> Iterator[tuple[Decision, Snapshot]]:
    """Each decision of a pass, in order, with a snapshot that gives this one and no other: its job
    alone, and the workers with what earlier decisions of the pass had placed on them."""
    pending = {p.job_id: p for p in snapshot.queue}
    workers = {view.worker_id: view for view in snapshot.workers}
    now = snapshot.limits.get("now")
    timeless = {
        k: v for k, v in snapshot.limits.items() if k not in ("max_placements", "heads", "now")
    }
    for decision in decisions:
        shapes = {decision.shape_id: snapshot.shapes[decision.shape_id]}
        queue = (pending[decision.job_id],)
        views = tuple(workers.values())
        if decision.outcome is Outcome.WAITING and any(view.ahead for view in views):
            # What may be sent ahead was not for it: the room behind that is an earlier job's.
            views = tuple(dataclasses.replace(view, ahead=0) for view in views)
        # Without the time nothing is reserved, for others had the right to it.
        is_held = bool(decision.holds) or any(view.hold for view in views)
        limits = timeless | {"now": now} if is_held else timeless
        yield decision, Snapshot(shapes, queue, views, limits)
        for placement in decision.placements:
            view = workers[placement.worker_id]
            if placement.ahead:
                sent = (*view.sent, pending[decision.job_id].priority)
                after = dataclasses.replace(view, sent=sent)
            else:
                shape = snapshot.shapes[decision.shape_id]
                until = None if now is None or shape.limit is None else now + shape.limit
                held = (*view.allocations, _allocation(decision, placement, until))
                hold = view.hold and _beside(view.hold, placement, until)
                after = dataclasses.replace(view, allocations=held, hold=hold)
            workers[placement.worker_id] = after
        for hold in decision.holds:
            view = workers[hold.worker_id]
            workers[hold.worker_id] = dataclasses.replace(view, hold=hold)


def record(decision: Decision, seen: Snapshot) -> dict[str, Any]:
    """What to store, in plain JSON types, so that `replay` can make the decision again."""
    return {"snapshot": snapshot_to_json(seen), "decision": decision_to_json(decision)}


def replay(stored: Mapping[str, Any]) -> Decision:
    """The decision, made anew from what was stored with it."""
    (decision,) = place(snapshot_from_json(stored["snapshot"]))
    return decision


def recorded(stored: Mapping[str, Any]) -> Decision:
    """The decision as it was made then."""
    return decision_from_json(stored["decision"])


def _beside(hold: Hold, placement: Placement, until: float | None) -> Hold:
    """What is left beside the reservation once that is placed there too."""
    if not outlives(until, hold.until):
        return hold
    return dataclasses.replace(
        hold,
        cpu_cores=(micro(hold.cpu_cores) - micro(placement.cpu_cores)) / 1_000_000,
        memory_gb=(micro(hold.memory_gb) - micro(placement.memory_gb)) / 1_000_000,
        gpus=tuple(uuid for uuid in hold.gpus if uuid not in placement.gpus),
    )


def _allocation(decision: Decision, placement: Placement, until: float | None) -> Allocation:
    return Allocation(
        task_id=f"{decision.job_id}/{placement.rank}",
        job_id=decision.job_id,
        cpu_cores=placement.cpu_cores,
        memory_gb=placement.memory_gb,
        gpus=placement.gpus,
        until=until,
    )


def _view_to_json(view: WorkerView) -> dict[str, Any]:
    data = dataclasses.asdict(view)
    data["allocations"] = sorted(data["allocations"], key=lambda held: held["task_id"])
    return data


def _view(data: Mapping[str, Any]) -> WorkerView:
    view: WorkerView = _read(WorkerView, data)
    return dataclasses.replace(
        view,
        capabilities=WorkerCapabilities.from_json(data["capabilities"]),
        allocations=tuple(_read(Allocation, a) for a in data.get("allocations", ())),
        hold=None if data.get("hold") is None else _read(Hold, data["hold"]),
    )


def _verdict(data: Mapping[str, Any]) -> Verdict:
    verdict: Verdict = _read(Verdict, data)
    checks = tuple(
        dataclasses.replace(_read(Check, check), fit=Fit(check["fit"])) for check in data["checks"]
    )
    return dataclasses.replace(verdict, fit=Fit(data["fit"]), checks=checks)


def _read(cls: type, data: Mapping[str, Any]) -> Any:
    names = {f.name for f in dataclasses.fields(cls)}
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in names})
