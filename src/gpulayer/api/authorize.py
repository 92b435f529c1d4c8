"""Who may do what: one table of actions, roles and objects, and what is not in it is refused.

An object is somebody's own (`own`), somebody's own and over (`ended`), or another's (`other`).
Routes that concern nothing in particular have `none`. Roles of persons grow: each has what the
one before it has. Everybody with a token may look at all jobs, logs and files of a plane; acting
on those of others is an operator's.
"""

from __future__ import annotations

from enum import StrEnum

from gpulayer.contracts.principals import PERSONS, Principal, Role
from gpulayer.errors import RefusedError


class Relation(StrEnum):
    NONE = "none"
    OWN = "own"
    ENDED = "ended"
    OTHER = "other"


_NONE = frozenset({Relation.NONE})
_OWN = frozenset({Relation.OWN, Relation.ENDED})
_LIVE = frozenset({Relation.OWN})
_ALL = frozenset(Relation)
_THEIRS = frozenset({Relation.OWN, Relation.ENDED, Relation.OTHER})

Rights = dict[Role, frozenset[Relation]]


def _persons(first: Role, relations: frozenset[Relation], more: Rights | None = None) -> Rights:
    """That role and each above it; `more` adds or replaces."""
    rights = dict.fromkeys(PERSONS[PERSONS.index(first) :], relations)
    return {**rights, **(more or {})}


# Role.LOCAL, the user of the plane's own machine, may do everything and stands in no row.
TABLE: dict[str, Rights] = {
    "public": dict.fromkeys((*PERSONS, Role.WORKER, Role.ANYONE), _ALL),
    "enrol": dict.fromkeys((*PERSONS, Role.WORKER, Role.ANYONE), _NONE),
    "plane.look": _persons(Role.VIEWER, _NONE),
    "plane.gc": _persons(Role.ADMIN, _NONE),
    "plane.stop": {},
    "environment.remove": _persons(Role.OPERATOR, _NONE),
    "job.submit": _persons(Role.SUBMITTER, _NONE),
    "job.look": _persons(Role.VIEWER, _THEIRS, {Role.WORKER: _LIVE}),
    "job.act": _persons(Role.SUBMITTER, _OWN, dict.fromkeys((Role.OPERATOR, Role.ADMIN), _THEIRS)),
    "job.enter": _persons(Role.SUBMITTER, _OWN, {Role.ADMIN: _THEIRS}),
    "stream.join": _persons(Role.SUBMITTER, _LIVE),
    "stream.serve": {Role.WORKER: _LIVE},
    "artifact.get": _persons(Role.VIEWER, _ALL, {Role.WORKER: _LIVE}),
    "artifact.put": _persons(Role.SUBMITTER, _ALL, {Role.WORKER: _LIVE}),
    "artifact.mend": _persons(Role.SUBMITTER, _NONE),
    "worker.drain": _persons(Role.OPERATOR, _THEIRS, {Role.WORKER: _LIVE}),
    "worker.manage": _persons(Role.OPERATOR, _THEIRS),
    "worker.revoke": _persons(Role.ADMIN, _THEIRS, {Role.WORKER: _LIVE}),
    "worker.speak": {Role.WORKER: _LIVE},
    "worker.log": {Role.WORKER: _OWN},
    "worker.checkpoint": {Role.WORKER: _LIVE},
    "worker.metrics": {Role.WORKER: _LIVE},
    "token.look": _persons(Role.VIEWER, _NONE | _OWN, {Role.ADMIN: _ALL}),
    "token.give": _persons(Role.ADMIN, _NONE),
    "token.revoke": _persons(Role.VIEWER, _OWN, {Role.ADMIN: _THEIRS}),
}


def may(role: Role, action: str, relation: Relation) -> bool:
    """An action without a row is nobody's."""
    if role is Role.LOCAL:
        return action in TABLE
    return relation in TABLE.get(action, {}).get(role, frozenset())


def may_at_all(role: Role, action: str) -> bool:
    """On some object: what can be said before a body is read."""
    return any(may(role, action, relation) for relation in Relation)


def authorize(principal: Principal, action: str, relation: Relation) -> None:
    """Return, or raise `not-allowed`."""
    if not may(principal.role, action, relation):
        whose = {Relation.OTHER: " of others", Relation.ENDED: " that is over"}.get(relation, "")
        raise refusal(principal, f"{action}{whose}")


def refusal(principal: Principal, what: str) -> RefusedError:
    return RefusedError(
        "not-allowed",
        f"a {principal.role} may not do that ({what})",
        why=f"the credential {principal.name or principal.credential_id} has that role",
        hint="gpulayer help roles",
    )
