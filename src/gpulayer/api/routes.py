"""The one table of routes. Server, clients, authorisation and the docs are derived from it.

Paths are templates; `{selector}` is a job's id, unique prefix, name or `last`. Every route is
idempotent or carries what makes it so. `parks` says that a call may be held on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass

JSON_BYTES = 1 << 20
BATCH_BYTES = 64 << 20
"""Many jobs at once, a worker's report with the ends and logs of many, a piece of log."""


@dataclass(frozen=True, slots=True)
class Route:
    name: str
    """Also the handler's name in `api.server`."""
    method: str
    path: str
    about: str
    action: str
    """What it does, as `api.authorize` names it."""
    object: str = ""
    """On what: `job`, `task`, `worker`, `token`, `stream` or `artifact` of the path, `speaker` (the
    worker that the body names) or `jobs` (those that it names), or nothing in particular."""
    parks: bool = False
    body_bytes: int = JSON_BYTES
    """Most that a body may hold; 0: what the disk takes."""

    @property
    def is_told_by_body(self) -> bool:
        """Whether the body must be read to know the object."""
        return self.object in ("speaker", "jobs")


# fmt: off
ROUTES: tuple[Route, ...] = (
    Route("version", "GET", "/v1/version", "Who answers: version, wire, pid, kind, folder.",
          "plane.look"),
    Route("submit", "POST", "/v1/jobs", "Accept one job, once per idempotency key.",
          "job.submit"),
    Route("submit_batch", "POST", "/v1/jobs/batch", "Accept many jobs, all or none.",
          "job.submit", body_bytes=BATCH_BYTES),
    Route("plan", "POST", "/v1/plan", "What would happen to a job; nothing is stored.",
          "plane.look"),
    Route("jobs", "GET", "/v1/jobs", "Jobs, newest first: live ones, or all.", "plane.look"),
    Route("results", "GET", "/v1/results", "Ends of a session's jobs, in order.", "plane.look",
          parks=True),
    Route("job", "GET", "/v1/jobs/{selector}", "One job, now or once it has moved.",
          "job.look", "job", parks=True),
    Route("events", "GET", "/v1/jobs/{selector}/events", "A job's story, numbered.",
          "job.look", "job", parks=True),
    Route("elements", "GET", "/v1/jobs/{selector}/elements",
          "Elements of an array, by index or as they ended.", "job.look", "job", parks=True),
    Route("decision", "GET", "/v1/jobs/{selector}/decision", "Why it is where it is.",
          "job.look", "job"),
    Route("logs", "GET", "/v1/jobs/{selector}/logs", "Framed log bytes by offset.",
          "job.look", "job", parks=True),
    Route("job_metrics", "GET", "/v1/jobs/{selector}/metrics",
          "What a job has reported: the newest of each name, or all points.",
          "job.look", "job", parks=True),
    Route("cancel", "POST", "/v1/jobs/{selector}/cancel", "Ask for the end of a job.",
          "job.act", "job"),
    Route("cancel_many", "POST", "/v1/jobs/cancel", "Ask for the end of many jobs, all or none.",
          "job.act", "jobs", body_bytes=BATCH_BYTES),
    Route("retry", "POST", "/v1/jobs/{selector}/retry", "A new job like this one.",
          "job.act", "job"),
    Route("open_stream", "POST", "/v1/jobs/{selector}/streams",
          "A command inside a running job, or a way to one of its ports.", "job.enter", "job"),
    Route("join_stream", "POST", "/v1/streams/{stream}",
          "The frames of a stream, both ways at once.", "stream.join", "stream", parks=True),
    Route("put_artifact", "PUT", "/v1/artifacts/sha256/{digest}", "Store bytes by digest.",
          "artifact.put", "artifact", body_bytes=0),
    Route("get_artifact", "GET", "/v1/artifacts/sha256/{digest}", "Bytes of an artifact.",
          "artifact.get", "artifact"),
    Route("link_artifact", "GET", "/v1/artifacts/sha256/{digest}/link",
          "Where its bytes can be had without the plane, if anywhere.", "artifact.get", "artifact"),
    Route("offer_artifact", "POST", "/v1/artifacts/sha256/{digest}/offer",
          "Where its bytes can be put without the plane, if anywhere.", "artifact.put", "artifact"),
    Route("arrived_artifact", "POST", "/v1/artifacts/sha256/{digest}/arrived",
          "Store what was put there, if it is what it is called.", "artifact.put", "artifact"),
    Route("missing_artifacts", "POST", "/v1/artifacts/missing", "Which of these are not here.",
          "artifact.put", "artifact", body_bytes=BATCH_BYTES),
    Route("put_artifacts", "PUT", "/v1/artifacts", "Store many small ones at once.",
          "artifact.put", "artifact", body_bytes=0),
    Route("mend_bundle", "PUT", "/v1/artifacts/sha256/{digest}/from/{base}",
          "Store a bundle by what has changed since another.", "artifact.mend",
          body_bytes=0),
    Route("workers", "GET", "/v1/workers", "Workers, what they have and what they do.",
          "plane.look"),
    Route("drain", "POST", "/v1/workers/{worker}/drain", "Give it no new work.",
          "worker.drain", "worker"),
    Route("resume", "POST", "/v1/workers/{worker}/resume", "Give it work again.",
          "worker.manage", "worker"),
    Route("label", "POST", "/v1/workers/{worker}/label", "Grant it labels, or take some away.",
          "worker.manage", "worker"),
    Route("revoke_worker", "POST", "/v1/workers/{worker}/revoke",
          "End its sessions at once; what it runs is lost.", "worker.revoke", "worker"),
    Route("caches", "GET", "/v1/caches", "What each worker keeps: environments, artifacts, "
          "workspaces, images.", "plane.look", parks=True),
    Route("remove_environments", "POST", "/v1/environments/remove",
          "Have workers let go of environments that no job uses.", "environment.remove",
          parks=True),
    Route("doctor", "GET", "/v1/doctor", "The plane's own health.", "plane.look"),
    Route("gc", "POST", "/v1/gc", "Remove what no job needs.", "plane.gc"),
    Route("stop", "POST", "/v1/stop", "End the plane, its agent and its supervisor.",
          "plane.stop"),
    Route("takeover", "POST", "/v1/takeover", "Hand listener and lock to another process.",
          "plane.stop"),
    Route("enrol", "POST", "/v1/enrol", "Trade a code for a credential of one's own.", "enrol",
          body_bytes=16 << 10),
    Route("renew", "POST", "/v1/worker/renew", "The session that follows this worker's.",
          "worker.speak", "speaker"),
    Route("invite", "POST", "/v1/invites", "A code with which somebody can enrol.",
          "token.give"),
    Route("tokens", "GET", "/v1/tokens", "Tokens, codes and sessions, without their secrets.",
          "token.look"),
    Route("mint", "POST", "/v1/tokens", "A person's token.", "token.give"),
    Route("revoke", "DELETE", "/v1/tokens/{token}", "A token is no good from now on.",
          "token.revoke", "token"),
    Route("audit", "GET", "/v1/audit", "What was done with credentials, numbered.",
          "token.give"),
    Route("healthz", "GET", "/healthz", "Whether the queue can be written and read.", "public",
          parks=True),
    Route("readyz", "GET", "/readyz", "Whether this plane takes work.", "public", parks=True),
    Route("metrics", "GET", "/metrics", "The plane's figures, for Prometheus.", "plane.look"),
    Route("openapi", "GET", "/openapi.json", "This API, for machines.", "public"),
    Route("docs", "GET", "/docs", "This API, for people.", "public"),
    Route("register", "POST", "/v1/worker/register", "A worker's first word.",
          "worker.speak", "speaker", body_bytes=BATCH_BYTES),
    Route("report", "POST", "/v1/worker/report", "Heartbeat, starts and ends of tasks.",
          "worker.speak", "speaker", body_bytes=BATCH_BYTES),
    Route("acquire", "POST", "/v1/worker/acquire", "Work for a worker.",
          "worker.speak", "speaker", parks=True),
    Route("keep_checkpoint", "PUT", "/v1/worker/tasks/{task}/checkpoint",
          "What a task's checkpoint folder holds.", "worker.checkpoint", "task",
          body_bytes=BATCH_BYTES),
    Route("keep_metrics", "PUT", "/v1/worker/tasks/{task}/metrics",
          "What a task has reported.", "worker.metrics", "task", body_bytes=BATCH_BYTES),
    Route("serve_stream", "POST", "/v1/worker/streams/{stream}",
          "The same for the worker's side.", "stream.serve", "stream", parks=True),
    Route("errand", "POST", "/v1/worker/errand", "What came of an errand.",
          "worker.speak", "speaker", body_bytes=BATCH_BYTES),
    Route("append_log", "PUT", "/v1/worker/tasks/{task}/log", "Log bytes at an offset.",
          "worker.log", "task", body_bytes=BATCH_BYTES),
)
# fmt: on
