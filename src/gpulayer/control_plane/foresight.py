"""What would happen to a job, and what comes of one that waits: the same scheduler, asked ahead."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.decision import Decision, Pending, Shape, Snapshot, StoredDecision
from gpulayer.contracts.ids import JobId
from gpulayer.contracts.jobspec import JobSpec, spec_to_json, validate_spec
from gpulayer.contracts.records import Job
from gpulayer.contracts.states import JobState
from gpulayer.control_plane import elements, views
from gpulayer.control_plane.ports import Ports, Reader
from gpulayer.control_plane.scheduler.outlook import Outlook, outlook
from gpulayer.control_plane.scheduler.place import Pass
from gpulayer.control_plane.scheduler.shapes import shape_id, shape_of
from gpulayer.control_plane.selection import find_job
from gpulayer.control_plane.snapshots import Snapshots
from gpulayer.control_plane.submission import fitted_origin, refuse_unbuilt
from gpulayer.errors import SpecError

_PLANNED = JobId("planned")


class Foresight:
    """Thread-safe. Stores nothing."""

    def __init__(self, ports: Ports, snapshots: Snapshots) -> None:
        self._ports = ports
        self._snapshots = snapshots

    def plan(self, spec: Mapping[str, Any], origin: Mapping[str, Any]) -> dict[str, Any]:
        """Outcome, the check table, what would run, and the outlook where it would wait. As the
        newest job of the queue. Raises what a submission would raise."""
        valid = validate_spec(spec)
        refuse_unbuilt(valid)
        pending, shape = planned(valid, fitted_origin(origin))
        with self._ports.store.read() as reader:
            snapshot = self._snapshot(reader, pending, shape)
        return foreseen(snapshot, valid, origin)

    def outlook(self, selector: str) -> dict[str, Any] | None:
        """Of a job that waits for room; None: it does not."""
        with self._ports.store.read() as reader:
            job = find_job(reader, selector)
            now = self._ports.clock.now()
            shape = reader.shape(job.shape_id)
            is_early = job.is_held or job.not_before > now
            if job.state is not JobState.QUEUED or is_early or shape is None:
                return None
            snapshot = self._snapshot(reader, _pending(job), shape)
        return views.outlook_json(_outlook(snapshot, _pending(job), job.spec, job.origin))

    def _snapshot(self, reader: Reader, job: Pending, shape: Shape) -> Snapshot:
        """The heads of the queue with the job in it, last of all if it is not there yet."""
        now, most = self._ports.clock.now(), self._ports.settings.pass_jobs
        heads = reader.ready_heads(now, most)
        queue, _ = elements.offered(reader, heads, most, now)
        if all(pending.job_id != job.job_id for pending in queue):
            seq = max((p.seq for p in queue), default=0) + 1
            queue = (*queue, dataclasses.replace(job, seq=max(seq, job.seq)))
        shapes = {p.shape_id: reader.shape(p.shape_id) or shape for p in queue}
        # Nothing is sent ahead: the answer is about room.
        workers = self._snapshots.views(reader, timed=True)
        idle = (dataclasses.replace(view, ahead=0) for view in workers)
        return self._snapshots.of(queue, shapes | {job.shape_id: shape}, idle, now=now)


def planned(spec: JobSpec, origin: Mapping[str, Any]) -> tuple[Pending, Shape]:
    """The job that a submission would queue, behind everything."""
    shape = shape_of(spec_to_json(spec), origin)
    fails = spec.placement.on_unschedulable == "fail"
    return Pending(_PLANNED, shape_id(shape), spec.priority, 0, fails), shape


def foreseen(snapshot: Snapshot, spec: JobSpec, origin: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of `plan` about the job `planned` of a snapshot that has the time."""
    body = spec_to_json(spec)
    pending = next(p for p in snapshot.queue if p.job_id == _PLANNED)
    decision = _decided(snapshot, pending)
    now = float(snapshot.limits["now"])
    told = views.decision_json(StoredDecision(decision, 1, now, now, ()))
    waits = not decision.placements
    return {
        "outcome": told["outcome"],
        "summary": told["summary"],
        "placements": told["placements"],
        "verdicts": told["verdicts"],
        "outlook": (
            views.outlook_json(_outlook(snapshot, pending, body, origin)) if waits else None
        ),
        "what_runs": {
            "argv": list(body["workload"].get("command", ())),
            "entrypoint": body["workload"].get("entrypoint"),
            "interpreter": origin.get("interpreter"),
            "cwd": origin.get("cwd"),
        },
    }


def _decided(snapshot: Snapshot, pending: Pending) -> Decision:
    """Behind all those that would come before it."""
    before = tuple(p for p in snapshot.queue if p is not pending and p.priority >= pending.priority)
    passed = Pass(dataclasses.replace(snapshot, queue=before))
    list(passed.run())
    return passed.judged(pending)


def _outlook(
    snapshot: Snapshot, pending: Pending, spec: Mapping[str, Any], origin: Mapping[str, Any]
) -> Outlook:
    def shaped(changed: Mapping[str, Any]) -> Shape | None:
        try:
            return shape_of(spec_to_json(validate_spec(changed)), origin)
        except SpecError:
            return None

    return outlook(snapshot, pending, spec, shaped)


def _pending(job: Job) -> Pending:
    return Pending(
        job.id,
        job.shape_id,
        job.priority,
        job.seq,
        job.fail_if_unschedulable,
        job.elements is not None,
        max(job.submitted_at, job.not_before),
    )
