"""The one table of routes. Server, clients, authorisation and the docs are derived from it.

Paths are templates; `{selector}` is a job's id, unique prefix, name or `last`. Every route is
idempotent or carries what makes it so. `parks` says that a call may be held on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Route:
    name: str
    """Also the handler's name in `api.server`."""
    method: str
    path: str
    about: str
    parks: bool = False


ROUTES: tuple[Route, ...] = (
    Route("version", "GET", "/v1/version", "Who answers: version, wire, pid, kind, folder."),
    Route("submit", "POST", "/v1/jobs", "Accept one job, once per idempotency key."),
    Route("submit_batch", "POST", "/v1/jobs/batch", "Accept many jobs, all or none."),
    Route("plan", "POST", "/v1/plan", "What would happen to a job; nothing is stored."),
    Route("jobs", "GET", "/v1/jobs", "Jobs, newest first: live ones, or all."),
    Route("results", "GET", "/v1/results", "Ends of a session's jobs, in order.", parks=True),
    Route("job", "GET", "/v1/jobs/{selector}", "One job, now or once it has moved.", parks=True),
    Route("events", "GET", "/v1/jobs/{selector}/events", "A job's story, numbered.", parks=True),
    Route("decision", "GET", "/v1/jobs/{selector}/decision", "Why it is where it is."),
    Route("logs", "GET", "/v1/jobs/{selector}/logs", "Framed log bytes by offset.", parks=True),
    Route("cancel", "POST", "/v1/jobs/{selector}/cancel", "Ask for the end of a job."),
    Route("retry", "POST", "/v1/jobs/{selector}/retry", "A new job like this one."),
    Route("put_artifact", "PUT", "/v1/artifacts/sha256/{digest}", "Store bytes by digest."),
    Route("get_artifact", "GET", "/v1/artifacts/sha256/{digest}", "Bytes of an artifact."),
    Route("workers", "GET", "/v1/workers", "Workers, what they have and what they do."),
    Route("doctor", "GET", "/v1/doctor", "The plane's own health."),
    Route("gc", "POST", "/v1/gc", "Remove what no job needs."),
    Route("stop", "POST", "/v1/stop", "End the plane, its agent and its supervisor."),
    Route("takeover", "POST", "/v1/takeover", "Hand listener and lock to another process."),
    Route("register", "POST", "/v1/worker/register", "A worker's first word."),
    Route("report", "POST", "/v1/worker/report", "Heartbeat, starts and ends of tasks."),
    Route("acquire", "POST", "/v1/worker/acquire", "Work for a worker.", parks=True),
    Route("append_log", "PUT", "/v1/worker/tasks/{task}/log", "Log bytes at an offset."),
)
