"""What clients see of jobs and workers: rows made into the JSON of the API. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpulayer.contracts.decision import Allocation, StoredDecision, WorkerView
from gpulayer.contracts.records import Event, Job, KeptCheckpoint, Output, Result, Task, Worker
from gpulayer.contracts.states import Reason, WorkerState
from gpulayer.control_plane.scheduler.outlook import Outlook

_PRIVATE_ORIGIN = frozenset({"attach_id"})


def job_json(
    job: Job,
    *,
    task: Task | None = None,
    worker: str | None = None,
    result: Result | None = None,
    outputs: Iterable[tuple[str, Output]] = (),
    summary: str = "",
    log_complete: bool = True,
    note: str = "",
    nodes: Iterable[tuple[Task, str | None]] = (),
    checkpoint: KeptCheckpoint | None = None,
    array: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`task`: the newest one of the job; `worker`: the name of its worker. `nodes`: of a gang, the
    same for each. `outputs`: each with its path. `array`: see `array_views`."""
    is_wanted = job.cancel_reason not in (Reason.PEER_FAILED, Reason.MAX_FAILURES)
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "reason": job.reason,
        "message": job.message,
        "attempt": job.attempt,
        "max_attempts": job.max_attempts,
        "exit_code": job.exit_code,
        "priority": job.priority,
        "submitted_at": job.submitted_at,
        "not_before": job.not_before or None,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "cancel_requested_at": job.cancel_requested_at if is_wanted else None,
        "worker": worker,
        "gpus": list(task.gpus) if task else [],
        "ranks": ranks_of(job.spec),
        "nodes": [
            {
                "node": one.rank,
                "worker": where,
                "state": one.state,
                "reason": one.reason,
                "exit_code": one.exit_code,
                "gpus": list(one.gpus),
                "world": one.world,
                "task_id": one.id,
            }
            for one, where in nodes
        ],
        "phase": task.phase if task else None,
        "preparation": task.preparation if task else None,
        "world": task.world if task else None,
        "disconnected_since": task.disconnected_since if task and not job.finished_at else None,
        "task_id": task.id if task else None,
        "retry_of": job.retry_of,
        "owner": job.owner,
        "spec": job.spec,
        "origin": {k: v for k, v in job.origin.items() if k not in _PRIVATE_ORIGIN},
        "decision_summary": summary,
        "version": job.version,
        "result": None if result is None else result_json(result),
        "outputs": [
            {"path": path, "digest": o.digest, "size": o.size, "executable": o.executable}
            for path, o in outputs
        ],
        "checkpoint": checkpoint
        and {
            "attempt": checkpoint.attempt,
            "at": checkpoint.at,
            "size": checkpoint.size,
            "files": len(checkpoint.files),
        },
        "left": None if result is None else result.left,
        "log_complete": log_complete,
        "array": array,
        "note": note,
    }


def ranks_of(spec: Mapping[str, Any]) -> int:
    """How many processes the job is, in the sense of its launcher."""
    work: Mapping[str, Any] = spec.get("workload") or {}
    return int(work.get("num_workers") or 1) * int(work.get("procs_per_worker") or 1)


def result_json(result: Result) -> dict[str, Any]:
    body: dict[str, Any] = {"state": result.state, "exit_code": result.exit_code}
    if result.value is not None:
        body["value"] = json.loads(result.value)
    if result.error is not None:
        body["error"] = result.error
    return body


def event_json(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "state": event.state,
        "reason": event.reason,
        "message": event.message,
        "task_id": event.task_id,
        "data": event.data,
    }


def decision_json(stored: StoredDecision) -> dict[str, Any]:
    decision = stored.decision
    return {
        "job_id": decision.job_id,
        "shape_id": decision.shape_id,
        "outcome": decision.outcome,
        "summary": decision.summary,
        "placements": [
            {
                "worker_id": p.worker_id,
                "rank": p.rank,
                "cpu_cores": p.cpu_cores,
                "memory_gb": p.memory_gb,
                "gpus": list(p.gpus),
            }
            for p in decision.placements
        ],
        "verdicts": [
            {
                "worker_id": v.worker_id,
                "worker_name": v.worker_name,
                "fit": v.fit,
                "count": v.count,
                "checks": [
                    {"name": c.name, "fit": c.fit, "need": c.need, "have": c.have} for c in v.checks
                ],
            }
            for v in decision.verdicts
        ],
        "count": stored.count,
        "first_at": stored.first_at,
        "last_at": stored.last_at,
    }


def outlook_json(outlook: Outlook) -> dict[str, Any]:
    """When a job may begin and with which changes; times are Unix seconds."""
    return {
        "start": outlook.start._asdict(),
        "suggestions": [
            {
                "text": one.text,
                "set": dict(one.fields),
                "together": one.together,
                "workers": list(one.workers),
                "start": one.start._asdict(),
            }
            for one in outlook.suggestions
        ],
    }


def worker_json(worker: Worker, view: WorkerView | None) -> dict[str, Any]:
    """`view` is missing for a worker that this plane has not heard of yet."""
    allocations: tuple[Allocation, ...] = view.allocations if view is not None else ()
    if view is None or view.offline:
        state = WorkerState.OFFLINE
    elif worker.draining:
        state = WorkerState.DRAINING
    else:
        state = WorkerState.BUSY if allocations else WorkerState.IDLE
    held: Mapping[str, str] = {uuid: a.job_id for a in allocations for uuid in a.gpus}
    return {
        "id": worker.id,
        "name": worker.name,
        "target": worker.target,
        "state": state,
        "draining": worker.draining,
        "incarnation": worker.incarnation,
        "registered_at": worker.registered_at,
        "seen_at": worker.seen_at,
        "labels": worker.labels,
        "capabilities": worker.capabilities,
        "tasks": [{"task_id": a.task_id, "job_id": a.job_id} for a in allocations],
        "cpu_cores_used": sum(a.cpu_cores for a in allocations),
        "memory_gb_used": sum(a.memory_gb for a in allocations),
        "gpus_used": held,
    }
