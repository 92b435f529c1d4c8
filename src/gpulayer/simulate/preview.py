"""`plan` for machines that need not exist: the scheduler on a fleet from a file, all of it idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.contracts.decision import Snapshot, WorkerView
from gpulayer.contracts.jobspec import validate_spec
from gpulayer.control_plane.foresight import foreseen, planned

_ANYWHERE = {"target": "remote", "fallback_targets": ["local"]}


def preview(spec: Mapping[str, Any], fleet: Sequence[WorkerView], now: float) -> dict[str, Any]:
    """The same answer as of a plane. A spec that does not say where may run anywhere. A SpecError
    where it is wrong."""
    placement = spec.get("placement") or {}
    where = placement if placement.get("target") else {**_ANYWHERE, **placement}
    valid = validate_spec({**spec, "placement": where})
    pending, shape = planned(valid, {})
    snapshot = Snapshot({pending.shape_id: shape}, (pending,), tuple(fleet), {"now": now})
    return foreseen(snapshot, valid, {})
