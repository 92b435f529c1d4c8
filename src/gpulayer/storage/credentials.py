"""The tables of credentials and of what was noted about them."""

from __future__ import annotations

from gpulayer.contracts.principals import AuditEvent, Credential, CredentialKind, Role
from gpulayer.storage.queries import Queries, Writes
from gpulayer.storage.rows import JSON, TEXT, Table, as_enum

CREDENTIALS = Table(
    "credentials",
    Credential,
    codecs={
        "kind": as_enum(CredentialKind),
        "role": as_enum(Role),
        "owner": TEXT,
        "name": TEXT,
        "labels": JSON,
    },
)
AUDIT = Table("audit", AuditEvent, codecs={"actor": TEXT, "note": TEXT}, given_by_store=("seq",))

_SELECT = f"SELECT {CREDENTIALS.columns} FROM credentials"
_BY_ID = f"{_SELECT} WHERE id = ?"
_ALL = f"{_SELECT} ORDER BY created_at, id"
_OF_WORKER = f"{_SELECT} WHERE worker_id = ? AND worker_id <> '' ORDER BY created_at, id"
_PUT = (
    f"{CREDENTIALS.insert} ON CONFLICT (id) DO UPDATE SET name = excluded.name,"
    " role = excluded.role, labels = excluded.labels, replaces = excluded.replaces,"
    " uses_left = excluded.uses_left, expires_at = excluded.expires_at,"
    " used_at = excluded.used_at, revoked_at = excluded.revoked_at"
)
_DELETE = "DELETE FROM credentials WHERE id = ?"
_NOTED = f"SELECT {AUDIT.columns} FROM audit WHERE seq > ? ORDER BY seq LIMIT ?"
_FORGET = "DELETE FROM audit WHERE at < ?"


class CredentialReads(Queries):
    def credential(self, credential_id: str) -> Credential | None:
        row = self._one(_BY_ID, credential_id)
        return CREDENTIALS.record(row) if row is not None else None

    def credentials(self) -> list[Credential]:
        """Oldest first, those that are of no use any more too."""
        return [CREDENTIALS.record(row) for row in self._all(_ALL)]

    def credentials_of_worker(self, worker_id: str) -> list[Credential]:
        return [CREDENTIALS.record(row) for row in self._all(_OF_WORKER, worker_id)]

    def audit(self, after: int = 0, limit: int = 1000) -> list[AuditEvent]:
        return [AUDIT.record(row) for row in self._all(_NOTED, after, limit)]


class CredentialWrites(Writes):
    def put_credential(self, credential: Credential) -> None:
        """Write it, new or known. Kind, digest, owner and worker of a known one stay; the
        database refuses to take a revocation back."""
        self._execute(_PUT, CREDENTIALS.row(credential))

    def delete_credential(self, credential_id: str) -> None:
        self._execute(_DELETE, (credential_id,))

    def note(self, event: AuditEvent) -> None:
        """Append; the store gives its number."""
        self._execute(AUDIT.insert, AUDIT.row(event))

    def forget_audit(self, before: float) -> None:
        self._execute(_FORGET, (before,))
