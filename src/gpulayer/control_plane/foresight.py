"""What would happen to a job: the same scheduler on a job that does not exist."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.decision import Pending, StoredDecision
from gpulayer.contracts.ids import JobId
from gpulayer.contracts.jobspec import spec_to_json, validate_spec
from gpulayer.control_plane import views
from gpulayer.control_plane.ports import Ports
from gpulayer.control_plane.scheduler.place import place
from gpulayer.control_plane.scheduler.shapes import shape_id, shape_of
from gpulayer.control_plane.snapshots import Snapshots
from gpulayer.control_plane.submission import fitted_origin, refuse_unbuilt


class Foresight:
    """Thread-safe. Stores nothing."""

    def __init__(self, ports: Ports, snapshots: Snapshots) -> None:
        self._ports = ports
        self._snapshots = snapshots

    def plan(self, spec: Mapping[str, Any], origin: Mapping[str, Any]) -> dict[str, Any]:
        """Outcome, the check table, and what would run. As if the queue were empty: a job that
        waits in it may come first. Raises what a submission would raise."""
        valid = validate_spec(spec)
        refuse_unbuilt(valid)
        body = spec_to_json(valid)
        shape = shape_of(body, fitted_origin(origin))
        fails = valid.placement.on_unschedulable == "fail"
        pending = Pending(JobId("planned"), shape_id(shape), valid.priority, 0, fails)
        with self._ports.store.read() as reader:
            # Nothing is sent ahead: the answer is whether there is room now.
            workers = (dataclasses.replace(v, ahead=0) for v in self._snapshots.views(reader))
            snapshot = self._snapshots.of((pending,), {pending.shape_id: shape}, workers)
        decision = place(snapshot)[0]
        now = self._ports.clock.now()
        told = views.decision_json(StoredDecision(decision, 1, now, now, ()))
        return {
            "outcome": told["outcome"],
            "summary": told["summary"],
            "placements": told["placements"],
            "verdicts": told["verdicts"],
            "what_runs": {
                "argv": list(body["workload"].get("command", ())),
                "entrypoint": body["workload"].get("entrypoint"),
                "interpreter": origin.get("interpreter"),
                "cwd": origin.get("cwd"),
            },
        }
