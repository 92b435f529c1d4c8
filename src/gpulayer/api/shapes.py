"""What bodies, queries and answers of the API hold, in the words of `contracts.fitting`.

    COMPONENTS   name -> field -> kind; a name that ends in `?` may be missing
    ROUTES       route -> its query, its body, its answer

A kind is `str`, `int`, `float`, `bool`, `Any`, `bytes`, `text`, `tuple[KIND, ...]`,
`Mapping[str, KIND]`, a component, or several of these with `|`. The messages between plane and
worker are components by themselves. A test holds real answers against this. The two tables are one
thing to look up, which makes this longer than others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpulayer.contracts import messages

MESSAGES: tuple[type[messages.Message], ...] = (
    messages.Held,
    messages.Register,
    messages.Registered,
    messages.Assignment,
    messages.Exit,
    messages.PreparedStep,
    messages.Preparation,
    messages.TaskReport,
    messages.Report,
    messages.Cancel,
    messages.KeepCheckpoint,
    messages.CheckpointKept,
    messages.KeepMetrics,
    messages.MetricsKept,
    messages.ReportReply,
    messages.Acquire,
    messages.StreamOrder,
    messages.Errand,
    messages.ErrandDone,
    messages.Acquired,
)

_TIME = "float | None"
_OBJECT = "Mapping[str, Any]"
_GRANT = {
    **dict.fromkeys(("code?", "token?", "role?", "name?"), "str"),
    "ttl_seconds?": "float | None",
    "uses?": "int",
    "mine?": "bool",
    "labels?": "Mapping[str, str]",
}

COMPONENTS: Mapping[str, Mapping[str, str]] = {
    "Version": {
        **dict.fromkeys(("version", "kind", "home"), "str"),
        "wire": "int",
        "pid": "int",
        "name": "str | None",
        "routes": "tuple[str, ...]",
    },
    "Problem": {
        **dict.fromkeys(("code", "message"), "str"),
        **dict.fromkeys(("where?", "why?", "job_id?"), "str"),
        "hint?": "tuple[str, ...]",
        "details?": _OBJECT,
    },
    "Refusal": {"error": "Problem"},
    "Submission": {
        "spec": "JobSpec",
        "origin?": f"{_OBJECT} | None",
        "idempotency_key?": "str | None",
        "envelope_id?": "str | None",
        "refresh?": "bool",
    },
    "Batch": {
        "jobs": "tuple[Submission, ...]",
        "origin?": f"{_OBJECT} | None",
        "envelope_id?": "str | None",
    },
    "Retry": {
        "spec?": "JobSpec",
        "origin?": f"{_OBJECT} | None",
        "idempotency_key?": "str | None",
        "envelope_id?": "str | None",
    },
    "Ending": {"mode?": "str", "grace_seconds?": "float"},
    "EndingMany": {
        "mode?": "str",
        "grace_seconds?": "float",
        "jobs?": "tuple[str, ...]",
        "all?": "bool",
    },
    "Collection": {"dry_run?": "bool", "older_than?": "float | None"},
    "Stop": {"force?": "bool"},
    "Takeover": {"socket?": "str", "version?": "str", "kind?": "str"},
    "Job": {
        **dict.fromkeys(("id", "name", "state", "reason", "message", "note"), "str"),
        **dict.fromkeys(("owner", "decision_summary"), "str"),
        **dict.fromkeys(("attempt", "max_attempts", "priority", "ranks", "version"), "int"),
        "exit_code": "int | None",
        "submitted_at": "float",
        **dict.fromkeys(("not_before", "started_at", "finished_at"), _TIME),
        **dict.fromkeys(("cancel_requested_at", "disconnected_since"), _TIME),
        **dict.fromkeys(("worker", "phase", "task_id", "retry_of", "world"), "str | None"),
        "gpus": "tuple[str, ...]",
        "nodes": "tuple[Node, ...]",
        **dict.fromkeys(("spec", "origin"), _OBJECT),
        **dict.fromkeys(("result", "preparation", "checkpoint"), f"{_OBJECT} | None"),
        "outputs": "tuple[Output, ...]",
        "left": "Any",
        "log_complete": "bool",
        "array": f"{_OBJECT} | None",
        "cached?": "bool",
    },
    "Node": {
        "node": "int",
        **dict.fromkeys(("state", "reason", "task_id"), "str"),
        **dict.fromkeys(("worker", "world"), "str | None"),
        "exit_code": "int | None",
        "gpus": "tuple[str, ...]",
    },
    "Output": {"path": "str", "digest": "str", "size": "int", "executable": "bool"},
    "Accepted": {
        **dict.fromkeys(("id", "name", "state"), "str"),
        "session": "str | None",
        "cached": "bool",
    },
    "Jobs": {"jobs": "tuple[Job, ...]"},
    "Ended": {"jobs": "tuple[Job, ...]", "had_ended": "tuple[str, ...]"},
    "BatchAccepted": {"jobs": "tuple[Accepted, ...]", "ends_after": "int"},
    "Ends": {"jobs": "tuple[Job, ...]", "next": "int"},
    "Event": {
        "seq": "int",
        "at": "float",
        **dict.fromkeys(("kind", "state", "reason", "message"), "str"),
        "task_id": "str | None",
        "data": _OBJECT,
    },
    "Story": {"events": "tuple[Event, ...]", "ended": "bool"},
    "Elements": {
        "elements": "tuple[Element, ...]",
        "next": "int | None",
        "ended": "bool",
        "array": _OBJECT,
    },
    "Element": {
        "index": "int",
        "state": "str",
        "attempt?": "int",
        "result?": _OBJECT,
        "files?": "Mapping[str, str]",
    },
    "JobMetrics": {
        "job": "str",
        "series": "tuple[Series, ...]",
        "next": "int",
        "ended": "bool",
    },
    "Series": {
        **dict.fromkeys(("index", "count"), "int"),
        "name": "str",
        "last": "Point",
        **dict.fromkeys(("least", "greatest"), "float | None"),
        "points?": "tuple[Point, ...]",
    },
    "Point": {
        **dict.fromkeys(("step", "attempt"), "int"),
        "at": "float",
        "value": "float | str",
    },
    "Verdict": {
        **dict.fromkeys(("worker_id", "worker_name", "fit"), "str"),
        "count": "int",
        "checks": f"tuple[{_OBJECT}, ...]",
    },
    "Decision": {
        **dict.fromkeys(("job_id?", "shape_id?", "outcome?", "summary?"), "str"),
        "placements?": f"tuple[{_OBJECT}, ...]",
        "verdicts?": "tuple[Verdict, ...]",
        "count?": "int",
        **dict.fromkeys(("first_at?", "last_at?"), "float"),
        "outlook": "Outlook | None",
    },
    "Forecast": {"at": _TIME, "is_sure": "bool", "because": "str"},
    "Suggestion": {
        "text": "str",
        "set": _OBJECT,
        "together": "bool",
        "workers": "tuple[str, ...]",
        "start": "Forecast",
    },
    "Outlook": {"start": "Forecast", "suggestions": "tuple[Suggestion, ...]"},
    "Planned": {
        "outlook": "Outlook | None",
        **dict.fromkeys(("outcome", "summary"), "str"),
        "placements": f"tuple[{_OBJECT}, ...]",
        "verdicts": "tuple[Verdict, ...]",
        "what_runs": _OBJECT,
    },
    "Stored": {"digest": "str", "size": "int"},
    "StoredMany": {"stored": "Any"},
    "Link": {"url": "str | None"},
    "Offered": {"url": "str | None", "name": "str | None"},
    "Upload": {"size": "int"},
    "Arrival": {"name": "str"},
    "Digests": {"digests?": "tuple[str, ...]"},
    "Missing": {"missing": "tuple[str, ...]", "begun?": "Mapping[str, int]"},
    "Worker": {
        **dict.fromkeys(("id", "name", "target", "state"), "str"),
        "draining": "bool",
        "incarnation": "int",
        **dict.fromkeys(("registered_at", "seen_at"), "float"),
        "labels": "Mapping[str, str]",
        "capabilities": _OBJECT,
        "tasks": f"tuple[{_OBJECT}, ...]",
        **dict.fromkeys(("cpu_cores_used", "memory_gb_used"), "float"),
        "gpus_used": "Mapping[str, str]",
    },
    "Workers": {"workers": "tuple[Worker, ...]"},
    "WorkerChanged": {
        "id": "str",
        "name": "str",
        "draining": "bool",
        "labels": "Mapping[str, str]",
    },
    "WorkerRevoked": {"worker": "str", "sessions": "tuple[str, ...]"},
    "Labels": {"labels": "Mapping[str, str | None]"},
    "Doctor": {
        "processes": f"tuple[{_OBJECT}, ...]",
        "jobs": "Mapping[str, int]",
        "serves": f"{_OBJECT} | None",
    },
    "EnvironmentRemoval": {
        "keys?": "tuple[str, ...]",
        "unused?": "bool",
        "workers?": "tuple[str, ...]",
    },
    "Caches": {"workers": "tuple[CachesOfWorker, ...]"},
    "CachesOfWorker": {
        **dict.fromkeys(("id", "name", "state", "why"), "str"),
        "answer": f"{_OBJECT} | None",
    },
    "Collected": {
        **dict.fromkeys(("jobs", "logs", "log_bytes", "artifacts", "artifact_bytes"), "int"),
        **dict.fromkeys(("remains", "remains_bytes"), "int"),
        "dry_run": "bool",
        "items": "tuple[Going, ...]",
    },
    "Going": {**dict.fromkeys(("kind", "name", "why"), "str"), "bytes": "int"},
    "Stopping": {"stopping": "bool"},
    "Enrolment": {
        **dict.fromkeys(("code", "token", "name"), "str"),
        "previous?": "str | None",
        "may_rename?": "bool",
    },
    "Renewal": {"worker_id": "str", "token": "str"},
    "Grant": _GRANT,
    "TokenGrant": {**_GRANT, "no_expiry?": "bool"},
    "Credential": {
        **dict.fromkeys(("id", "kind", "role", "owner", "name", "plane_version"), "str"),
        **dict.fromkeys(("worker", "issued_by"), "str | None"),
        "labels": "Mapping[str, str]",
        "created_at": "float",
        **dict.fromkeys(("expires_at", "used_at", "revoked_at"), _TIME),
        "uses_left": "int | None",
    },
    "Credentials": {"tokens": "tuple[Credential, ...]"},
    "Audit": {"events": f"tuple[{_OBJECT}, ...]"},
    "Health": {"status": "str", "why?": "str", "queued?": "int"},
    "LogSize": {"size": "int"},
    "Wish": {
        **dict.fromkeys(("stream", "kind"), "str"),
        "argv?": "tuple[str, ...]",
        **dict.fromkeys(("node?", "port?"), "int"),
        "forward?": "str",
        "terminal?": f"{_OBJECT} | None",
        "set?": "Mapping[str, str]",
    },
    "Way": {**dict.fromkeys(("stream", "job", "worker"), "str"), "node": "int"},
}


class Shape(NamedTuple):
    answer: str
    body: str = ""
    query: Mapping[str, str] = {}
    unwell: str = ""
    """Of status 503, where that is no refusal."""


_WAIT = {"wait": "float"}

ROUTES: Mapping[str, Shape] = {
    "version": Shape("Version"),
    "submit": Shape("Job", "Submission"),
    "submit_batch": Shape("BatchAccepted", "Batch"),
    "plan": Shape("Planned", "Submission"),
    "jobs": Shape("Jobs", query={"all": "int", "limit": "int", "name": "str"}),
    "results": Shape("Ends", query={"session": "str", "after": "int", **_WAIT}),
    "job": Shape("Job", query={"until": "str", **_WAIT}),
    "events": Shape("Story", query={"after": "int", **_WAIT}),
    "elements": Shape(
        "Elements",
        query={
            **dict.fromkeys(("state", "order"), "str"),
            **dict.fromkeys(("after", "limit", "ended"), "int"),
            "gather": "float",
            **_WAIT,
        },
    ),
    "job_metrics": Shape(
        "JobMetrics",
        query={"name": "str", **dict.fromkeys(("index", "after", "points"), "int"), **_WAIT},
    ),
    "decision": Shape("Decision"),
    "logs": Shape("bytes", query={"offset": "str", "index": "int", **_WAIT}),
    "cancel": Shape("Job", "Ending"),
    "cancel_many": Shape("Ended", "EndingMany"),
    "retry": Shape("Job", "Retry"),
    "open_stream": Shape("Way", "Wish"),
    "join_stream": Shape("bytes", "bytes"),
    "put_artifact": Shape("Stored", "bytes"),
    "get_artifact": Shape("bytes"),
    "link_artifact": Shape("Link"),
    "offer_artifact": Shape("Offered", "Upload"),
    "arrived_artifact": Shape("Stored", "Arrival"),
    "missing_artifacts": Shape("Missing", "Digests"),
    "put_artifacts": Shape("StoredMany", "bytes"),
    "mend_bundle": Shape("Stored", "bytes"),
    "workers": Shape("Workers"),
    "drain": Shape("WorkerChanged", "Any"),
    "resume": Shape("WorkerChanged", "Any"),
    "label": Shape("WorkerChanged", "Labels"),
    "revoke_worker": Shape("WorkerRevoked", "Any"),
    "doctor": Shape("Doctor"),
    "caches": Shape("Caches", query={"what": "str", **_WAIT}),
    "remove_environments": Shape("Caches", "EnvironmentRemoval"),
    "gc": Shape("Collected", "Collection"),
    "stop": Shape("Stopping", "Stop"),
    "takeover": Shape(_OBJECT, "Takeover"),
    "enrol": Shape("Credential", "Enrolment"),
    "renew": Shape("Credential", "Renewal"),
    "invite": Shape("Credential", "Grant"),
    "tokens": Shape("Credentials"),
    "mint": Shape("Credential", "TokenGrant"),
    "revoke": Shape("Credential"),
    "audit": Shape("Audit", query={"after": "int"}),
    "healthz": Shape("Health", unwell="Health"),
    "readyz": Shape("Health", unwell="Health"),
    "metrics": Shape("text"),
    "openapi": Shape(_OBJECT),
    "docs": Shape("text"),
    "register": Shape("Registered", "Register"),
    "report": Shape("ReportReply", "Report"),
    "acquire": Shape("Acquired", "Acquire"),
    "keep_checkpoint": Shape("CheckpointKept", "KeepCheckpoint"),
    "keep_metrics": Shape("MetricsKept", "KeepMetrics"),
    "serve_stream": Shape("bytes", "bytes"),
    "errand": Shape(_OBJECT, "ErrandDone"),
    "append_log": Shape("LogSize", "bytes", {"offset": "int", "fence": "int"}),
}
