"""Decisions, and all they were made from, as one canonical text that can be run again.

A record holds one job, its shape and the workers as that decision saw them, so it stands alone:
the placements made earlier in the same pass are in it as allocations.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.decision import (
    Allocation,
    Check,
    Decision,
    Fit,
    Outcome,
    Pending,
    Placement,
    Snapshot,
    Verdict,
    WorkerView,
)
from gpulayer.contracts.ids import JobId, ShapeId, WorkerId
from gpulayer.control_plane.scheduler.place import place
from gpulayer.control_plane.scheduler.shapes import canonical, shape_from_json, shape_to_json


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """Plain JSON types; `canonical` of it is the decision's bytes."""
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


def record(snapshot: Snapshot, decisions: Sequence[Decision], decision: Decision) -> str:
    """What to store so that `replay` gives `decision`, one of the `decisions` of `snapshot`."""
    seen = _as_seen(snapshot, decisions[: decisions.index(decision)], decision)
    return canonical(
        {"snapshot": snapshot_to_json(seen), "decision": decision_to_json(decision)}
    )


def replay(stored: str) -> str:
    """The canonical JSON of the decision, made anew from what was stored."""
    snapshot = snapshot_from_json(json.loads(stored)["snapshot"])
    (decision,) = place(snapshot)
    return canonical(decision_to_json(decision))


def recorded(stored: str) -> str:
    """The canonical JSON of the decision as it was stored."""
    return canonical(json.loads(stored)["decision"])


def _as_seen(snapshot: Snapshot, before: Sequence[Decision], decision: Decision) -> Snapshot:
    taken: dict[WorkerId, list[Allocation]] = {}
    for earlier in before:
        for p in earlier.placements:
            taken.setdefault(p.worker_id, []).append(
                Allocation(
                    f"{earlier.job_id}/{p.rank}", earlier.job_id, p.cpu_cores, p.memory_gb, p.gpus
                )
            )
    return Snapshot(
        shapes={decision.shape_id: snapshot.shapes[decision.shape_id]},
        queue=tuple(p for p in snapshot.queue if p.job_id == decision.job_id),
        workers=tuple(
            dataclasses.replace(
                view, allocations=(*view.allocations, *taken.get(view.worker_id, ()))
            )
            for view in snapshot.workers
        ),
        limits={k: v for k, v in snapshot.limits.items() if k != "max_placements"},
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
    )


def _verdict(data: Mapping[str, Any]) -> Verdict:
    verdict: Verdict = _read(Verdict, data)
    checks = tuple(
        dataclasses.replace(_read(Check, check), fit=Fit(check["fit"])) for check in data["checks"]
    )
    return dataclasses.replace(verdict, fit=Fit(data["fit"]), checks=checks)


def _read(cls: type, data: Mapping[str, Any]) -> Any:
    names = {f.name for f in dataclasses.fields(cls)}
    return cls(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in names}
    )
