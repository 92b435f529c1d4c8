"""The routes of codes, tokens and workers' sessions: translation alone, as in `handlers`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gpulayer._version import __version__
from gpulayer.api import credentials
from gpulayer.api.answers import Call
from gpulayer.api.authorize import Relation, may
from gpulayer.contracts.fitting import fitted
from gpulayer.contracts.principals import PERSONS, Credential, CredentialKind, Role
from gpulayer.control_plane.enrolment import Enrolment, Grant
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.ports import then
from gpulayer.errors import UsageError

_ENROL = {
    **dict.fromkeys(("code", "token", "name"), "str"),
    "previous": "str | None",
    "may_rename": "bool",
}
_RENEW = {"token": "str"}
_GRANT = {
    **dict.fromkeys(("code", "token", "role", "name"), "str"),
    "ttl_seconds": "float | None",
    "uses": "int",
    "mine": "bool",
    "labels": "Mapping[str, Any]",
}
_TOKEN = {**_GRANT, "no_expiry": "bool"}
_LABELS = {"labels": "Mapping[str, Any]"}
_AUDIT_EVENTS = 1000


class Rights:
    """Part of `handlers.Handlers`, whose docstrings hold for it too."""

    _plane: ControlPlane

    def enrol(self, call: Call) -> Any:
        """`token` is the caller's own new secret: it is not in the answer."""
        body = _with(call.body, _ENROL, "code", "token", "name")
        previous = body.get("previous")
        wish = Enrolment(
            code=credentials.read_way_in(body["code"]).presented,
            new=credentials.read(body["token"]).presented,
            name=body["name"],
            may_rename=bool(body.get("may_rename")),
            previous=credentials.read(previous).presented if previous else None,
            address=call.address,
        )
        return then(self._plane.enrol(wish), credential_json)

    def renew(self, call: Call) -> Any:
        body = _with(call.body, _RENEW, "token")
        new = credentials.read(body["token"], CredentialKind.WORKER).presented
        return then(self._plane.renew(call.principal, new), credential_json)

    def invite(self, call: Call) -> Any:
        """`code` is a secret of the caller's making, for whoever it is handed to."""
        body = _with(call.body, _GRANT, "code")
        code = credentials.read_code(body["code"]).presented
        made = self._plane.invite(code, _grant(body, Role.WORKER, call), call.principal)
        return then(made, credential_json)

    def mint(self, call: Call) -> Any:
        body = _with(call.body, _TOKEN, "token")
        token = credentials.read(body["token"], CredentialKind.CLIENT).presented
        grant = _grant(body, Role.SUBMITTER, call)
        if body.get("no_expiry"):
            if grant.seconds is not None:
                raise UsageError("usage", "a token expires after ttl_seconds, or never: not both")
            grant = dataclasses.replace(grant, expires=False)
        made = self._plane.mint(token, grant, call.principal)
        return then(made, credential_json)

    def tokens(self, call: Call) -> Any:
        """Those that the caller may see: their own, or all."""
        me = call.principal
        rows = self._plane.credentials()
        seen = [
            credential_json(row)
            for row in rows
            if may(me.role, "token.look", Relation.OWN if row.owner == me.owner else Relation.OTHER)
        ]
        return {"tokens": seen}

    def revoke(self, call: Call) -> Any:
        return then(self._plane.revoke(call.path["token"], call.principal), credential_json)

    def audit(self, call: Call) -> Any:
        events = self._plane.audit(call.number("after"), _AUDIT_EVENTS)
        return {
            "events": [
                {
                    "seq": event.seq,
                    "at": event.at,
                    "kind": event.kind,
                    "credential": event.credential_id,
                    "actor": event.actor,
                    "note": event.note,
                }
                for event in events
            ]
        }

    def drain(self, call: Call) -> Any:
        return then(self._plane.drain(call.path["worker"]), _worker_json)

    def resume(self, call: Call) -> Any:
        return then(self._plane.drain(call.path["worker"], draining=False), _worker_json)

    def label(self, call: Call) -> Any:
        labels = _with(call.body, _LABELS, "labels")["labels"]
        return then(self._plane.label(call.path["worker"], labels), _worker_json)

    def revoke_worker(self, call: Call) -> Any:
        worker = call.path["worker"]
        if call.principal.role is not Role.WORKER:
            worker = self._plane.worker_id(worker)
        ended = self._plane.revoke_worker(worker, call.principal)
        return then(ended, lambda ids: {"worker": worker, "sessions": ids})


def credential_json(row: Credential) -> dict[str, Any]:
    """What may be told of it. It has no secret to tell."""
    return {
        "id": row.id,
        "kind": row.kind,
        "role": row.role,
        "owner": row.owner,
        "name": row.name,
        "worker": row.worker_id or None,
        "labels": dict(row.labels),
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "used_at": row.used_at,
        "revoked_at": row.revoked_at,
        "uses_left": row.uses_left,
        "issued_by": row.issued_by or None,
        "plane_version": __version__,
    }


def _worker_json(worker: Any) -> dict[str, Any]:
    return {
        "id": worker.id,
        "name": worker.name,
        "draining": worker.draining,
        "labels": dict(worker.labels),
    }


def _with(body: Any, kinds: Mapping[str, str], *needed: str) -> Mapping[str, Any]:
    found = fitted("the request", body, kinds)
    for name in needed:
        if name not in found:
            raise UsageError("usage", f"the request lacks {name}")
    return found


def _grant(body: Mapping[str, Any], usual: Role, call: Call) -> Grant:
    asked = body.get("role", usual)
    known = (*PERSONS, Role.WORKER) if usual is Role.WORKER else PERSONS
    if asked not in known:
        raise UsageError("usage", f"there is no role {asked!r}; there are {', '.join(known)}")
    return Grant(
        role=Role(asked),
        name=body.get("name", ""),
        owner=call.principal.owner if body.get("mine") else "",
        seconds=body.get("ttl_seconds"),
        uses=body.get("uses", 1),
        labels=body.get("labels") or {},
    )
