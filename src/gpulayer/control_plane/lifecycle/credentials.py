"""What becomes of credentials: use, renewal, revocation, end. Pure.

join code   minted - used ... used up | expired | revoked
session     enrolled - [renewed: both are good until the new one is used] - expired | revoked
            expired: good for being renewed alone, for a while
"""

from __future__ import annotations

import dataclasses

from gpulayer.contracts.durations import duration_text
from gpulayer.contracts.principals import PERSONS, Credential, CredentialKind, Presented, Role

RENEW_AT = 2 / 3
"""Share of its life after which a session is renewed: a third is left to try again."""


def why_not(credential: Credential, now: float) -> str:
    """Why it is no good at `now`; empty when it is."""
    if credential.revoked_at is not None:
        return f"it was revoked {duration_text(max(0.0, now - credential.revoked_at))} ago"
    if credential.uses_left == 0:
        return "all of its uses are used up"
    if credential.expires_at is not None and now >= credential.expires_at:
        return f"it expired {duration_text(max(0.0, now - credential.expires_at))} ago"
    return ""


def why_not_followed(session: Credential, now: float, seconds: float) -> str:
    """Why no other session follows it at `now`; empty when one may. A worker's that has expired,
    and nothing else, may be followed for `seconds` more: its machine was off."""
    is_late = (
        session.kind is CredentialKind.WORKER
        and session.revoked_at is None
        and session.expires_at is not None
        and now < session.expires_at + seconds
    )
    return "" if is_late else why_not(session, now)


def used(code: Credential) -> Credential:
    """A code with one use less."""
    if code.uses_left is None:
        return code
    return dataclasses.replace(code, uses_left=code.uses_left - 1)


def revoked(credential: Credential, now: float) -> Credential:
    """Twice is once."""
    if credential.revoked_at is not None:
        return credential
    return dataclasses.replace(credential, revoked_at=now)


def is_due(session: Credential, now: float) -> bool:
    """Whether a worker should renew it now."""
    if session.kind is not CredentialKind.WORKER or session.expires_at is None:
        return False
    life = session.expires_at - session.created_at
    return now >= session.created_at + life * RENEW_AT


def renewed(old: Credential, new: Presented, now: float, seconds: float) -> Credential:
    """The session that follows; it ends `old` when it is first used."""
    return dataclasses.replace(
        old,
        id=new.id,
        digest=new.digest,
        created_at=now,
        expires_at=now + seconds,
        issued_by=old.id,
        replaces=old.id,
        used_at=None,
    )


def is_within(role: Role, most: Role) -> bool:
    """Whether a person of role `most` may hand out `role`."""
    if most is Role.LOCAL:
        return role in PERSONS
    return role in PERSONS and most in PERSONS and PERSONS.index(role) <= PERSONS.index(most)
