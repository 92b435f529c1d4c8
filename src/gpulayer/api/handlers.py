"""One small function per route: a `Call` in, one method of the plane, an answer out.

Everything here is translation: bodies to messages, records to JSON, waiting to `Parked`. A rule
that is tempting to put here belongs into the plane. Longer than others: one for each route.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from gpulayer._version import __version__
from gpulayer.api.answers import PARK_SECONDS, Call, Parked, Raw
from gpulayer.api.authorize import Relation, may
from gpulayer.api.begun import Begun
from gpulayer.api.elements import Elements
from gpulayer.api.files import Files
from gpulayer.api.guard import Guard
from gpulayer.api.host_names import HostNames
from gpulayer.api.keeping import Keeping
from gpulayer.api.rights import Rights
from gpulayer.api.routes import ROUTES
from gpulayer.api.speaking import Speaking
from gpulayer.api.sse import Message, Stream, log_messages
from gpulayer.api.streaming import Streaming
from gpulayer.api.submissions import (
    SUBMISSION,
    envelope_of,
    named_by,
    origin_of,
    submissions_of,
)
from gpulayer.api.watching import Watching
from gpulayer.artifacts.port import ArtifactStore
from gpulayer.contracts.fitting import fitted
from gpulayer.contracts.messages import WIRE
from gpulayer.contracts.principals import Role
from gpulayer.contracts.records import Job
from gpulayer.control_plane.cached import is_recorded
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.ports import then
from gpulayer.control_plane.wakeups import ANY_JOB, Wakeups, job_topic
from gpulayer.errors import RefusedError, UsageError
from gpulayer.runtime import segments

STOP_SECONDS = 15.0
"""How long a forced stop waits for cancelled jobs to end."""
LOG_BYTES = 1 << 20
"""Most log bytes of one answer."""
LONGEST = segments.MAX_RECORD + segments.HEADER.size
"""So much more is read for a stream, which tells whole records."""

_BATCH = {"jobs": "tuple[Mapping[str, Any], ...]"}
_CANCEL = {"mode": "str", "grace_seconds": "float"}
_CANCEL_MANY = {**_CANCEL, "jobs": "tuple[str, ...]", "all": "bool"}
_GC = {"dry_run": "bool", "older_than": "float | None"}
_STOP = {"force": "bool"}
_TAKEOVER = {"socket": "str", "version": "str", "kind": "str"}
"""What the bodies hold, as `contracts.fitting` names it."""


class Host(Protocol):
    """The process around the plane: what only it can do or tell."""

    kind: str
    home: str
    uploads: str
    """Folder for bodies on their way in."""
    names: Collection[str]
    """By which strangers may call it, besides its addresses (`api.host_names`)."""

    def stop(self) -> None:
        """End the plane and all that belongs to it, after the current call is answered."""

    def takeover(self, wish: Mapping[str, Any]) -> Mapping[str, Any]:
        """Agree to hand over to the process that asks, or raise why not."""

    def processes(self) -> list[dict[str, Any]]:
        """[{kind, pid, note}] of everything that belongs to this plane."""

    def front(self) -> Mapping[str, Any]:
        """Of a served plane {address, fingerprint}; fingerprint None without TLS."""


class Handlers(Rights, Speaking, Watching, Files, Streaming, Keeping, Elements):
    """The routes of one plane. Thread-safe."""

    def __init__(self, plane: ControlPlane, artifacts: ArtifactStore, host: Host) -> None:
        super().__init__()
        self._plane = plane
        self.guard = Guard(plane, HostNames(host.names))
        self._artifacts = artifacts
        self._host = host
        self._disk = ThreadPoolExecutor(4, "gpulayer-disk")
        self.begun = Begun(host.uploads)

    @property
    def plane(self) -> ControlPlane:
        return self._plane

    @property
    def wakeups(self) -> Wakeups:
        return self._plane.wakeups

    @property
    def uploads(self) -> str:
        return self._host.uploads

    def version(self, call: Call) -> Any:
        return {
            "version": __version__,
            "wire": WIRE,
            "pid": os.getpid(),
            "kind": self._host.kind,
            "home": self._host.home,
            "name": self._host.front().get("name"),
            "routes": [route.name for route in ROUTES],
        }

    def submit(self, call: Call) -> Any:
        wanted = submissions_of([call.body], call.body, call.principal)
        jobs = self.looked_up(named_by(wanted), lambda: self._plane.submit(wanted))
        return then(jobs, lambda accepted: self._submitted(accepted[0]))

    def _submitted(self, job: Job) -> dict[str, Any]:
        return {**self._plane.job(job.id), "cached": is_recorded(job)}

    def submit_batch(self, call: Call) -> Any:
        wanted = fitted("a batch", call.body, _BATCH).get("jobs") or ()
        before = self._plane.last_end()
        asked = submissions_of(wanted, call.body, call.principal)
        jobs = self.looked_up(named_by(asked), lambda: self._plane.submit(asked))
        return then(
            jobs,
            lambda accepted: {
                "jobs": [
                    {
                        "id": j.id,
                        "name": j.name,
                        "state": j.state,
                        "session": j.origin.get("session"),
                        "cached": is_recorded(j),
                    }
                    for j in accepted
                ],
                "ends_after": before,
            },
        )

    def plan(self, call: Call) -> Any:
        body = fitted("a plan", call.body, SUBMISSION)
        return self._plane.plan(body.get("spec") or {}, origin_of(body, call.principal) or {})

    def jobs(self, call: Call) -> Any:
        return {
            "jobs": self._plane.jobs(
                ended=call.query.get("all") == "1",
                limit=call.number("limit", 100),
                name=call.query.get("name"),
            )
        }

    def job(self, call: Call) -> Any:
        job_id = self._plane.find(call.path["selector"]).id
        seconds = call.seconds("wait", PARK_SECONDS)
        if not seconds:
            return self._plane.job(job_id)
        until = call.query.get("until", "finished")

        def look(last: bool) -> Any:
            found = self._plane.job(job_id)
            is_there = found["finished_at"] or (until == "started" and found["started_at"])
            return found if last or is_there else None

        return Parked((job_topic(job_id),), seconds, look)

    def results(self, call: Call) -> Any:
        session, after = call.query.get("session", ""), call.number("after")

        def look(last: bool) -> Any:
            ended, cursor = self._plane.ended(session, after)
            return {"jobs": ended, "next": cursor} if last or ended else None

        return Parked((ANY_JOB,), call.seconds("wait", PARK_SECONDS), look)

    def events(self, call: Call) -> Any:
        job_id = self._plane.find(call.path["selector"]).id
        after = call.after("after")
        if call.streams:
            return Stream((job_topic(job_id),), after, lambda seen: self._next(job_id, seen))

        def look(last: bool) -> Any:
            ended = self._plane.find(job_id).finished_at is not None
            found = self._plane.events(job_id, after)
            return {"events": found, "ended": ended} if last or found or ended else None

        return Parked((job_topic(job_id),), call.seconds("wait", PARK_SECONDS), look)

    def job_metrics(self, call: Call) -> Any:
        job_id, after = self._plane.find(call.path["selector"]).id, call.number("after")
        index = call.number("index") if call.query.get("index") else None
        how = {"name": call.query.get("name"), "index": index, "whole": call.number("points") > 0}

        def look(last: bool) -> Any:
            is_due = last or self._plane.newest_metrics(job_id) > after
            if is_due or self._plane.find(job_id).finished_at is not None:
                return self._plane.metrics(job_id, **how)
            return None

        return Parked((job_topic(job_id),), call.seconds("wait", PARK_SECONDS), look)

    def decision(self, call: Call) -> Any:
        selector = call.path["selector"]
        return {**(self._plane.decision(selector) or {}), "outlook": self._plane.outlook(selector)}

    def logs(self, call: Call) -> Any:
        job_id = self._plane.find(call.path["selector"]).id
        cursor = call.cursor("offset")
        index = call.number("index") if call.query.get("index") else None
        if call.streams:
            return Stream((job_topic(job_id),), cursor, lambda at: self._said(job_id, at, index))

        def look(last: bool) -> Any:
            part = self._plane.log(job_id, cursor, LOG_BYTES, index)
            if not (part.data or part.eof or last):
                return None
            headers = {"X-Gpulayer-Next": part.next, "X-Gpulayer-Eof": str(int(part.eof))}
            if part.size is not None:
                headers["X-Gpulayer-Size"] = str(part.size)
            return Raw(part.data, headers)

        return Parked((job_topic(job_id),), call.seconds("wait", PARK_SECONDS), look)

    def _next(self, job_id: str, after: int) -> tuple[list[Message], int, bool]:
        """A job's story from there on, for a stream."""
        ended = self._plane.find(job_id).finished_at is not None
        found = self._plane.events(job_id, after)
        told = [Message(event["seq"], event["kind"], event) for event in found]
        return told, found[-1]["seq"] if found else after, ended

    def _said(self, job_id: str, cursor: str, index: int | None) -> tuple[list[Message], str, bool]:
        """Its log, the same. A cursor that no message had as its id ends the stream."""
        part = self._plane.log(job_id, cursor, LOG_BYTES + LONGEST, index)
        try:
            told, after = log_messages(part.pieces, cursor, part.cursor_at)
        except ValueError:
            return [], cursor, True
        if part.cursor_at is not None:
            return told, part.next, part.eof
        return told, after, part.eof and after == part.next

    def cancel(self, call: Call) -> Any:
        body = fitted("a cancel", call.body, _CANCEL)
        asked = self._plane.cancel(call.path["selector"], **_picked(body, _CANCEL))
        return then(asked, lambda before: self._plane.job(before[0].id))

    def cancel_many(self, call: Call) -> Any:
        """`jobs`, or with `all` every unfinished one that the caller may end."""
        body = fitted("a cancel", call.body, _CANCEL_MANY)
        named, is_all = body.get("jobs"), body.get("all", False)
        if is_all != (named is None):
            raise UsageError("usage", "a cancel of many names the jobs, or says that it means all")
        me = call.principal
        is_anybodys = may(me.role, "job.act", Relation.OTHER) if is_all else me.role is Role.LOCAL
        owner = None if is_anybodys else me.owner
        asked = self._plane.cancel(named, owner=owner, **_picked(body, _CANCEL))

        def told() -> Any:
            before = asked.result()
            had_ended = [job.id for job in before if job.finished_at is not None]
            return {"jobs": [self._plane.job(job.id) for job in before], "had_ended": had_ended}

        return self._disk.submit(told)  # of many this takes a while: not on the writer's thread

    def retry(self, call: Call) -> Any:
        body = fitted("a retry", call.body, SUBMISSION)
        job = self._plane.retry(
            call.path["selector"],
            origin=origin_of(body, call.principal),
            envelope_id=envelope_of(body, call.principal),
            idempotency_key=body.get("idempotency_key"),
            owner=call.principal.owner,
            spec=body.get("spec"),
        )
        return then(job, lambda fresh: self._plane.job(fresh.id))

    def workers(self, call: Call) -> Any:
        return {"workers": self._plane.workers()}

    def doctor(self, call: Call) -> Any:
        return {
            "processes": self._host.processes(),
            "jobs": dict(self._plane.counts()),
            "serves": dict(self._host.front()) or None,
        }

    def gc(self, call: Call) -> Any:
        asked = fitted("a collection", call.body, _GC)
        done = self._disk.submit(
            self._plane.gc, dry_run=bool(asked.get("dry_run")), older_than=asked.get("older_than")
        )
        return then(done, dataclasses.asdict)

    def stop(self, call: Call) -> Any:
        """Refused while jobs have not ended; with `force` they are cancelled first. One that comes
        in the same moment is not cancelled: it is kept, and its client starts a plane again."""
        if not fitted("a stop", call.body, _STOP).get("force"):
            unfinished = self._plane.jobs(limit=5)
            if unfinished:
                raise RefusedError(
                    "job-not-finished",
                    f"jobs have not ended: {', '.join(job['id'] for job in unfinished)}",
                    why="a stop would end those that run, and start none of those that wait",
                    hint=("gpulayer ps", "gpulayer stop --force"),
                )
            self._host.stop()
            return {"stopping": True}
        self._plane.cancel_all()

        def look(last: bool) -> Any:
            if last or not self._plane.jobs(limit=1):
                self._host.stop()
                return {"stopping": True}
            return None

        return Parked((ANY_JOB,), STOP_SECONDS, look)

    def takeover(self, call: Call) -> Any:
        return self._host.takeover(fitted("a takeover", {"socket": "", **call.body}, _TAKEOVER))


def _picked(body: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}
