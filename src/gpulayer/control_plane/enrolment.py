"""How credentials come to be: invited, enrolled, minted, renewed.

Whoever gets a credential has made its secret; the plane is given it once, inside TLS, and keeps
the SHA-256. So every verb here may be repeated after a lost answer: the same secret is the same
credential. A refusal of a code is noted as much as its use; notes hold ids alone.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.principals import (
    Credential,
    CredentialKind,
    Presented,
    Principal,
    Role,
)
from gpulayer.control_plane.access import is_same, noted, unauthorized
from gpulayer.control_plane.labels import checked
from gpulayer.control_plane.lifecycle import credentials as rules
from gpulayer.control_plane.ports import Ports, Tx, then
from gpulayer.errors import GPULayerError, RefusedError, UsageError

NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
TAKEN_WORDS = frozenset({"local", "here", "any", "remote", "cloud", "last"})
"""Mean something else in `--on`."""
_CODES = (CredentialKind.JOIN, CredentialKind.INSTANCE)
"""Are traded for another."""


@dataclass(frozen=True, slots=True)
class Enrolment:
    """Somebody with a code and a secret of their own, who wants to come in."""

    code: Presented
    new: Presented
    name: str
    may_rename: bool = False
    """The name is only a proposal: a free one like it will do."""
    previous: Presented | None = None
    """The worker's earlier session, which proves that the name is its own."""
    address: str = ""
    """From where, for the notes."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a new code or token is to be good for."""

    role: Role
    name: str = ""
    owner: str = ""
    """Empty: an owner of its own."""
    seconds: float | None = None
    expires: bool = True
    """False: a person's token that is good until it is revoked. Nothing else is ever that."""
    uses: int = 1
    """Of a code."""
    labels: Mapping[str, str] = field(default_factory=dict)


class Enrolments:
    """Thread-safe."""

    def __init__(self, ports: Ports, changed: Callable[[Credential], Credential]) -> None:
        """`changed` is told of each credential that was written."""
        self._ports = ports
        self._changed = changed

    def enrol(self, wish: Enrolment) -> Future[Credential]:
        """Trade a code for a credential. Of more who come with one code than it has uses, exactly
        so many get in. Raises `unauthorized`, `name-taken`, or a usage error."""
        _check_name(wish.name)
        now = self._ports.clock.now()

        def trade(tx: Tx) -> Credential | GPULayerError:
            code = tx.credential(wish.code.id)
            if code is None or not is_same(code, wish.code):
                refusal: GPULayerError = unauthorized("this plane does not know the code")
            else:
                known = tx.credential(wish.new.id)
                if known is not None and is_same(known, wish.new) and known.issued_by == code.id:
                    return known  # the answer was lost on its way
                made = self._enrolled(tx, wish, code, known, now)
                if isinstance(made, Credential):
                    tx.put_credential(rules.used(code))
                    tx.put_credential(made)
                    tx.note(
                        noted(now, "enrolled", made.id, wish.address, f"{made.name}, {code.id}")
                    )
                    return made
                refusal = made
            tx.note(noted(now, "refused", wish.code.id, wish.address, refusal.why or str(refusal)))
            return refusal

        return then(self._ports.write(trade, durable=True), _given)

    def renew(self, principal: Principal, new: Presented) -> Future[Credential]:
        """The session that follows a worker's; the old one is good until the new one is used. Also
        for one that has expired meanwhile (`Settings.return_seconds`)."""
        now = self._ports.clock.now()

        def follow(tx: Tx) -> Credential:
            old = tx.credential(principal.credential_id)
            known = tx.credential(new.id)
            if old is None or old.kind is not CredentialKind.WORKER:
                raise unauthorized("only a worker's session is renewed")
            if known is not None:
                if is_same(known, new) and known.worker_id == old.worker_id:
                    return known
                raise _taken(new.id)
            why = rules.why_not_followed(old, now, self._ports.settings.return_seconds)
            if why:
                raise unauthorized(why, old)
            for other in tx.credentials_of_worker(old.worker_id):
                if other.replaces == old.id:  # made, and its answer was never heard
                    tx.put_credential(rules.revoked(other, now))
            made = rules.renewed(old, new, now, self._ports.settings.session_seconds)
            tx.put_credential(made)
            tx.note(noted(now, "renewed", made.id, old.id, old.name))
            return made

        return then(self._ports.write(follow, durable=True), self._changed)

    def invite(self, code: Presented, grant: Grant, by: Principal) -> Future[Credential]:
        """A code with which somebody can enrol."""
        settings = self._ports.settings
        if not 1 <= grant.uses <= settings.code_uses_most:
            raise UsageError("usage", f"a code has 1 to {settings.code_uses_most} uses")
        seconds = _lifetime(grant.seconds, settings.code_seconds, settings.code_seconds_most)
        return self._mint(code, grant, by, seconds, grant.uses)

    def expect(self, instance: Presented, grant: Grant, by: Principal) -> Future[Credential]:
        """The token of one instance that is being started: it lets one worker of exactly
        `grant.name` in, once, soon. A second use is noted as `refused`."""
        seconds = self._ports.settings.instance_seconds
        return self._mint(instance, grant, by, seconds, uses=1)

    def mint(self, token: Presented, grant: Grant, by: Principal) -> Future[Credential]:
        """A person's token."""
        settings = self._ports.settings
        seconds = (
            _lifetime(grant.seconds, settings.token_seconds, settings.token_seconds_most)
            if grant.expires
            else None
        )
        return self._mint(token, grant, by, seconds, None)

    def _enrolled(
        self, tx: Tx, wish: Enrolment, code: Credential, known: Credential | None, now: float
    ) -> Credential | GPULayerError:
        """The credential to write, or why there is none."""
        why = rules.why_not(code, now)
        if why:
            return unauthorized(why, code)
        if known is not None:
            return _taken(wish.new.id)
        is_worker = code.role is Role.WORKER
        if code.kind is CredentialKind.INSTANCE and wish.name != code.name:
            return unauthorized("it is another instance's", code)
        wanted = CredentialKind.WORKER if is_worker else CredentialKind.CLIENT
        if wish.new.kind is not wanted:
            verb = "join" if is_worker else "login"
            why = f"the code is for `gpulayer {verb}`"
            return RefusedError("unauthorized", "this code is of the other kind", why=why)
        settings = self._ports.settings
        name = wish.name
        if is_worker:
            free = _free_name(tx, wish, now)
            if isinstance(free, GPULayerError):
                return free
            name = free
            for old in tx.credentials_of_worker(name):
                tx.put_credential(rules.revoked(old, now))
            worker = tx.worker(WorkerId(name))
            if worker is not None:  # whoever followed it has no right to that any more
                tx.put_worker(dataclasses.replace(worker, heir="", replaced=()))
        return Credential(
            id=wish.new.id,
            kind=wanted,
            digest=wish.new.digest,
            role=code.role,
            owner=code.owner or wish.new.id,
            name=name,
            created_at=now,
            issued_by=code.id,
            worker_id=name if is_worker else "",
            labels=code.labels,
            expires_at=now + (settings.session_seconds if is_worker else settings.token_seconds),
        )

    def _mint(
        self, new: Presented, grant: Grant, by: Principal, seconds: float | None, uses: int | None
    ) -> Future[Credential]:
        lets_in_a_worker = new.kind in _CODES and grant.role is Role.WORKER
        if not lets_in_a_worker and not rules.is_within(grant.role, by.role):
            raise RefusedError("not-allowed", f"a {by.role} cannot make a {grant.role}")
        if grant.name:
            _check_name(grant.name)
        checked(grant.labels)
        now = self._ports.clock.now()
        made = Credential(
            id=new.id,
            kind=new.kind,
            digest=new.digest,
            role=grant.role,
            owner=grant.owner or ("" if new.kind in _CODES else new.id),
            name=grant.name,
            created_at=now,
            issued_by=by.credential_id,
            labels=grant.labels,
            uses_left=uses,
            expires_at=None if seconds is None else now + seconds,
        )

        def record(tx: Tx) -> Credential:
            known = tx.credential(new.id)
            if known is not None:
                if is_same(known, new):
                    return known
                raise _taken(new.id)
            tx.put_credential(made)
            note = f"{made.kind}, {made.role}"
            if seconds is None:
                note += ", never expires"
            tx.note(noted(now, "minted", made.id, by.credential_id or by.role, note))
            return made

        return self._ports.write(record, durable=True)


def _free_name(tx: Tx, wish: Enrolment, now: float) -> str | GPULayerError:
    """Its own name back for who proves it, else one that no other worker has."""
    if wish.previous is not None:
        old = tx.credential(wish.previous.id)
        if (
            old is not None
            and is_same(old, wish.previous)
            and old.revoked_at is None
            and old.name == wish.name
        ):
            return wish.name
    taken = set(TAKEN_WORDS)
    for worker in tx.workers():
        taken |= {worker.id, worker.name}
    taken |= {c.name for c in tx.credentials() if c.worker_id and c.revoked_at is None}
    if wish.name not in taken:
        return wish.name
    if wish.may_rename:
        names = (f"{wish.name[:59]}-{number}" for number in range(2, 1000))
        return next(name for name in names if name not in taken)
    return RefusedError(
        "name-taken",
        f"another worker is called {wish.name!r}",
        why="it is its own as long as its session was not revoked",
        hint=f"gpulayer worker revoke {wish.name}",
    )


def _given(made: Credential | GPULayerError) -> Credential:
    if isinstance(made, GPULayerError):
        raise made
    return made


def _check_name(name: str) -> None:
    if NAME.fullmatch(name) is None:
        raise UsageError("usage", "a name has 1 to 63 letters, digits, `_`, `.` or `-`")


def _lifetime(asked: float | None, usual: float, most: float) -> float:
    if asked is None:
        return usual
    if not 0 < asked <= most:
        raise UsageError("usage", f"it can be good for up to {most / 3600:.0f} h")
    return asked


def _taken(credential_id: str) -> RefusedError:
    return RefusedError(
        "idempotency-conflict",
        f"another credential is called {credential_id}",
        why="each is made anew: ask again, and another one is made",
    )
