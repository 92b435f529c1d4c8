"""Who calls, and what they carry: roles, principals, credentials, and what is noted about them.

A credential is stored as the SHA-256 of its secret and never as the secret. A principal is what
a call is made as once its credential was looked up; handlers and the table of `api.authorize` see
principals alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    ANYONE = "anyone"
    """Who brings no credential."""
    VIEWER = "viewer"
    """Looks at everything, changes nothing."""
    SUBMITTER = "submitter"
    """And submits jobs, and acts on those of their own."""
    OPERATOR = "operator"
    """And acts on everybody's jobs, and on workers."""
    ADMIN = "admin"
    """And on tokens, invitations and the plane's data."""
    WORKER = "worker"
    """One worker's session: itself, and what its own tasks need."""
    LOCAL = "local"
    """The user of the plane's own machine, by its private socket: everything."""


PERSONS = (Role.VIEWER, Role.SUBMITTER, Role.OPERATOR, Role.ADMIN)
"""What a token can be given, ascending."""


class CredentialKind(StrEnum):
    CLIENT = "client"
    JOIN = "join"
    WORKER = "worker"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class Principal:
    role: Role
    owner: str = ""
    """Whose jobs these are; empty for the plane's own user."""
    credential_id: str = ""
    name: str = ""
    worker_id: str = ""


LOCAL = Principal(Role.LOCAL)
ANYONE = Principal(Role.ANYONE)


@dataclass(frozen=True, slots=True)
class Presented:
    """What somebody showed: enough to look it up and to compare, and no secret."""

    kind: CredentialKind
    id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Credential:
    """One row. Times are Unix seconds."""

    id: str
    kind: CredentialKind
    digest: str
    """SHA-256 of the secret, 64 lower-case hex digits."""
    role: Role
    """Of who carries it; of a join code, of who enrols with it."""
    owner: str
    name: str
    created_at: float
    issued_by: str = ""
    """Id of the join code, or of the credential, that made it; empty: the plane's own user."""
    replaces: str = ""
    """Id of the session that ends when this one is first used."""
    worker_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Granted to the worker, or to those that enrol."""
    uses_left: int | None = None
    """None: any number."""
    expires_at: float | None = None
    used_at: float | None = None
    """Coarse; see `Settings.used_seconds`."""
    revoked_at: float | None = None


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One use of a right that should be traceable. It never holds a secret."""

    seq: int
    at: float
    kind: str
    """`minted`, `enrolled`, `renewed`, `revoked`, `refused`."""
    credential_id: str
    actor: str
    """Credential id of who did it, or the address of who tried."""
    note: str = ""
