"""The door of the API: who calls, and whether they may. Every route goes through it.

Before a body is read: the other side's wire version, its credential, whether its role may do this
at all. Then, with the object at hand, whether it may do it to this one. A caller by the private
socket is the plane's own user and needs no credential.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gpulayer._version import __version__, ordered
from gpulayer.api import credentials
from gpulayer.api.answers import Call, Parked
from gpulayer.api.attempts import Attempts
from gpulayer.api.authorize import Relation, authorize, may_at_all, refusal
from gpulayer.api.host_names import HostNames
from gpulayer.api.routes import Route
from gpulayer.api.sse import Message, Stream
from gpulayer.clock import SystemClock
from gpulayer.contracts.messages import WIRE
from gpulayer.contracts.principals import ANYONE, LOCAL, Principal, Role
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.wakeups import right_topic
from gpulayer.errors import GPULayerError, NotFoundError, RefusedError, UsageError

Headers = Sequence[tuple[bytes, bytes]]


class Guard:
    """Of one plane. `admit` belongs to the event loop's thread, the rest to any."""

    def __init__(self, plane: ControlPlane, names: HostNames) -> None:
        self._plane = plane
        self._names = names
        self._attempts = Attempts(SystemClock())

    def admit(
        self,
        headers: Headers,
        route: Route,
        *,
        is_private: bool,
        is_plain: bool = False,
        address: str = "",
    ) -> Principal:
        """Who calls, once it is known that they speak our language and may come this far.

        Raises `version-mismatch`, `unauthorized`, `not-allowed`, or `usage` for two credentials and
        for a name that is not ours.
        """
        _check_wire(headers)
        if is_private:
            principal = LOCAL
        else:
            self._require_our_name(headers, is_plain=is_plain)
            _refuse_browsers(headers)
            _refuse_packed(headers)
            try:
                principal = self._principal(headers, route)
            except RefusedError:
                self._attempts.count(address)
                raise
            if route.action == "enrol":
                self._attempts.require(address)
        if not may_at_all(principal.role, route.action):
            if principal.role is Role.ANYONE:
                raise RefusedError(
                    "unauthorized",
                    "this plane wants a token",
                    hint="gpulayer help unauthorized",
                )
            raise refusal(principal, route.action)
        return principal

    def refused(self, route: Route, error: GPULayerError, address: str) -> GPULayerError:
        """What to answer instead of a refusal: a guessed code is noted in the store, so guessing is
        slowed down before it gets there."""
        if route.action == "enrol" and error.code == "unauthorized" and address:
            try:
                self._attempts.count(address)
            except RefusedError as too_often:
                return too_often
        return error

    def named(self, call: Call) -> Call:
        """The same, with the caller's own newest job where it says `last`."""
        if call.path.get("selector") != "last" or call.principal.role is Role.LOCAL:
            return call
        job = self._plane.find("last", owner=call.principal.owner)
        return dataclasses.replace(call, path={**call.path, "selector": job.id})

    def check(self, route: Route, call: Call) -> None:
        """Whether this call may touch what it names. Raises `not-allowed`; a worker that looks at
        what is not its own hears that it is not there."""
        if call.principal.role is Role.LOCAL:
            return
        relation = self._relation(route, call)
        try:
            authorize(call.principal, route.action, relation)
        except RefusedError:
            if call.principal.role is Role.WORKER and route.method == "GET":
                raise _not_there(route, call) from None
            raise

    def held(self, principal: Principal, answer: Any) -> Any:
        """A parked answer, or a stream, that ends when the caller's credential does."""
        if not isinstance(answer, Parked | Stream) or not principal.credential_id:
            return answer
        topic = right_topic(principal.credential_id)
        if isinstance(answer, Stream):
            stream = answer

            def go_on(after: int) -> tuple[Sequence[Message], int, bool]:
                self._plane.require(principal)
                return stream.look(after)

            return Stream((*stream.topics, topic), stream.after, go_on)

        def look(last: bool) -> Any:
            self._plane.require(principal)
            return answer.look(last)

        return Parked((*answer.topics, topic), answer.seconds, look)

    def _require_our_name(self, headers: Headers, *, is_plain: bool) -> None:
        for name, value in headers:
            if name != b"host" or self._names.answers(value, is_plain=is_plain):
                continue
            if is_plain:
                raise RefusedError("not-allowed", "this plane is for its own machine alone")
            said = value[:100].decode("latin-1")
            raise UsageError(
                "usage",
                f"this server does not answer to the name {said!r}",
                why=f"it answers to its addresses and to {self._names}",
                hint="gpulayer serve --advertise NAME",
            )

    def _principal(self, headers: Headers, route: Route) -> Principal:
        found = [value for name, value in headers if name == b"authorization"]
        if not found:
            return ANYONE
        if len(found) > 1:
            raise UsageError("usage", "the call carries two credentials")
        shown = credentials.from_header(found[0].decode("latin-1"))
        return self._plane.authenticate(shown.presented, renews=route.name == "renew")

    def _relation(self, route: Route, call: Call) -> Relation:
        if not route.object:
            return Relation.NONE
        return _RELATIONS[route.object](self._plane, route, call)


def _job(plane: ControlPlane, route: Route, call: Call) -> Relation:
    return _relation_to(call.path["selector"], plane, call.principal)


def _jobs(plane: ControlPlane, route: Route, call: Call) -> Relation:
    """The furthest of them. Of a body that names none, what is asked for is one's own."""
    named = call.body.get("jobs") if isinstance(call.body, dict) else None
    if not isinstance(named, list):
        return Relation.OWN
    found = {_relation_to(str(name), plane, call.principal) for name in named}
    return max(found, key=tuple(Relation).index, default=Relation.OWN)


def _relation_to(selector: str, plane: ControlPlane, me: Principal) -> Relation:
    job = plane.find(selector, owner=me.owner)
    if me.role is Role.WORKER:
        is_mine = any(task.job_id == job.id for task in plane.tasks_of(me.worker_id))
        return Relation.OWN if is_mine else Relation.OTHER
    if job.owner != me.owner:
        return Relation.OTHER
    return Relation.OWN if job.finished_at is None else Relation.ENDED


def _task(plane: ControlPlane, route: Route, call: Call) -> Relation:
    task = plane.task(call.path["task"])
    if task is None or task.worker_id != call.principal.worker_id:
        return Relation.OTHER
    return Relation.OWN if task.finished_at is None else Relation.ENDED


def _worker(plane: ControlPlane, route: Route, call: Call) -> Relation:
    mine = call.principal.worker_id
    return Relation.OWN if mine and call.path["worker"] == mine else Relation.OTHER


def _speaker(plane: ControlPlane, route: Route, call: Call) -> Relation:
    mine = call.principal.worker_id
    said = call.body.get("worker_id") if isinstance(call.body, dict) else None
    return Relation.OWN if mine and said == mine else Relation.OTHER


def _token(plane: ControlPlane, route: Route, call: Call) -> Relation:
    row = plane.credential(call.path["token"])
    if row.owner != call.principal.owner:
        return Relation.OTHER
    return Relation.OWN if row.revoked_at is None else Relation.ENDED


def _stream(plane: ControlPlane, route: Route, call: Call) -> Relation:
    """The two sides of it: who opened it, and the worker that runs the task."""
    stream, me = plane.streams.get(call.path["stream"]), call.principal
    if me.role is Role.WORKER:
        is_mine = stream.worker_id == me.worker_id
    else:
        is_mine = stream.principal.owner == me.owner
    return Relation.OWN if is_mine else Relation.OTHER


def _artifact(plane: ControlPlane, route: Route, call: Call) -> Relation:
    """A worker fetches what its own tasks name, and stores while it has any."""
    me = call.principal
    if me.role is not Role.WORKER:
        return Relation.NONE
    if route.method == "GET":
        is_mine = plane.needs_artifact(me.worker_id, call.path["digest"])
    else:
        is_mine = bool(plane.tasks_of(me.worker_id))
    return Relation.OWN if is_mine else Relation.OTHER


_RELATIONS = {
    "job": _job,
    "jobs": _jobs,
    "task": _task,
    "worker": _worker,
    "speaker": _speaker,
    "token": _token,
    "stream": _stream,
    "artifact": _artifact,
}


def _not_there(route: Route, call: Call) -> GPULayerError:
    if route.object == "artifact":
        return NotFoundError("artifact-not-found", f"no artifact is called {call.path['digest']}")
    name = call.path.get("selector", "")
    return NotFoundError("job-not-found", f"no job is called {name!r}", hint="gpulayer ps -a")


def _refuse_browsers(headers: Headers) -> None:
    """A page of another site may make a browser call us, and there is no reason for it to: no
    token of ours ever is in a browser (Fetch standard, 2.2 and 3.2; Fetch Metadata)."""
    for name, value in headers:
        if name == b"origin" or (
            name == b"sec-fetch-site" and value not in (b"same-origin", b"none")
        ):
            raise RefusedError("not-allowed", "pages of other sites may not call this plane")


def _refuse_packed(headers: Headers) -> None:
    """A small body that grows is a way to fill memory, and none of ours is packed."""
    for name, value in headers:
        if name == b"content-encoding" and value.lower() != b"identity":
            raise UsageError("usage", "a request's body is sent as it is, without an encoding")


def newer_client(headers: Headers, error: GPULayerError) -> GPULayerError:
    """The error for a field that this plane does not know, said to a client that is newer."""
    theirs = dict(headers).get(b"x-gpulayer-version", b"")[:40].decode("latin-1")
    if error.code != "unknown-field" or ordered(theirs) <= ordered(__version__):
        return error
    return RefusedError(
        "version-mismatch",
        f"client {theirs} asks for what this plane of version {__version__} does not know",
        why=str(error),
        hint="gpulayer plan --help",
    )


def _check_wire(headers: Headers) -> None:
    said = dict(headers)
    wire = said.get(b"x-gpulayer-wire")
    if wire is None or wire == str(WIRE).encode():
        return
    theirs = said.get(b"x-gpulayer-version", b"?")[:40].decode("latin-1")
    is_newer = wire.isdigit() and int(wire[:9]) > WIRE
    raise RefusedError(
        "version-mismatch",
        f"client {theirs} cannot talk to the plane of version {__version__}",
        why=f"it speaks wire {wire[:9].decode('latin-1')}, the plane speaks wire {WIRE}: "
        f"upgrade {'the plane' if is_newer else 'the client'}",
        hint="pip install --upgrade gpulayer",
    )
