"""Who may come in: looking credentials up, and taking them back.

What somebody shows is looked up by its public id and compared by digest in constant time. What is
taken back is no good from that moment on, and calls that are held for it are woken. How credentials
come to be is `enrolment`'s.
"""

from __future__ import annotations

import dataclasses
import hmac
from collections.abc import Callable, Collection
from concurrent.futures import Future

from gpulayer.contracts.ids import LOCAL_WORKER, WorkerId
from gpulayer.contracts.principals import (
    AuditEvent,
    Credential,
    CredentialKind,
    Presented,
    Principal,
    Role,
)
from gpulayer.contracts.states import Reason
from gpulayer.control_plane.endings import end_tasks
from gpulayer.control_plane.lifecycle import credentials as rules
from gpulayer.control_plane.lifecycle.tasks import lost
from gpulayer.control_plane.ports import Ports, Tx, then
from gpulayer.control_plane.sessions import Sessions
from gpulayer.control_plane.wakeups import right_topic, worker_topic
from gpulayer.errors import NotFoundError, RefusedError

_NOBODY = "0" * 64
_BEARERS = (CredentialKind.CLIENT, CredentialKind.WORKER)
_MOST_BELIEVED = 10_000


class Access:
    """Thread-safe."""

    def __init__(self, ports: Ports, sessions: Sessions, dispatch: Callable[[], None]) -> None:
        self._ports = ports
        self._sessions = sessions
        self._dispatch = dispatch
        self._believed: dict[str, tuple[float, Credential]] = {}
        """id -> when it was read, and what it was."""

    # --- coming in -------------------------------------------------------------------------

    def authenticate(self, shown: Presented, *, renews: bool = False) -> Principal:
        """Whoever carries it. Raises `unauthorized`, with a reason only for who has its secret.
        `renews`: it is shown for being renewed, for which a little less will do."""
        row = self._known(shown.id)
        is_it = hmac.compare_digest(_NOBODY if row is None else row.digest, shown.digest)
        if row is None or not is_it or row.kind is not shown.kind:
            raise unauthorized("this plane does not know it")
        if row.kind not in _BEARERS:
            raise unauthorized("it is good for coming in once, and not for calling", row)
        now = self._ports.clock.now()
        late = self._ports.settings.return_seconds
        why = rules.why_not_followed(row, now, late) if renews else rules.why_not(row, now)
        if why:
            raise unauthorized(why, row)
        if row.replaces or row.used_at is None or now - row.used_at >= self._coarse:
            self._used(row, now)
        return Principal(row.role, row.owner, row.id, row.name, row.worker_id)

    def require(self, principal: Principal) -> None:
        """Raise `unauthorized` when what it came in with is no good any more: for calls that were
        held."""
        if principal.credential_id:
            # Another plane may have written, and its word is why we look: nothing is believed.
            self._believed.pop(principal.credential_id, None)
            row = self._known(principal.credential_id)
            why = "it is gone" if row is None else rules.why_not(row, self._ports.clock.now())
            if why:
                raise unauthorized(why, row)

    def is_due(self, principal: Principal) -> bool:
        """Whether a worker should renew its session now."""
        row = self._known(principal.credential_id) if principal.credential_id else None
        return row is not None and rules.is_due(row, self._ports.clock.now())

    def revoke(self, credential_id: str, by: Principal) -> Future[Credential]:
        """From now on it is no good, and calls that are held for it end. Twice-safe."""
        now = self._ports.clock.now()

        def take_back(tx: Tx) -> Credential:
            row = tx.credential(credential_id)
            if row is None:
                raise _no_such(credential_id)
            self._take_back(tx, row, by, now)
            return rules.revoked(row, now)

        return then(self._ports.write(take_back, durable=True), self.changed)

    def revoke_worker(self, worker_id: WorkerId, by: Principal) -> Future[list[str]]:
        """Its sessions are no good any more, what it runs is lost, and it is forgotten. The ids
        of the sessions. Twice-safe."""
        if worker_id == LOCAL_WORKER:
            raise RefusedError(
                "not-allowed",
                "the worker of the server's own machine has no session to revoke",
                why="it is the server's user; `serve --no-worker` goes without it",
                hint=f"gpulayer worker drain {worker_id}",
            )
        now = self._ports.clock.now()

        def take_back(tx: Tx) -> tuple[list[str], set[str]]:
            rows = [c for c in tx.credentials_of_worker(worker_id) if c.revoked_at is None]
            for row in rows:
                self._take_back(tx, row, by, now)
            end = lost(Reason.WORKER_LOST, f"{worker_id} was revoked")
            live = [(task.id, end) for task in tx.live_tasks(worker_id=worker_id)]
            topics = end_tasks(tx, self._ports.ids, live, now)
            tx.delete_worker(worker_id)
            return [row.id for row in rows], topics

        def tell(done: tuple[list[str], set[str]]) -> list[str]:
            ids, topics = done
            for credential_id in ids:
                self._believed.pop(credential_id, None)
            self._sessions.close(worker_id)
            self._ports.wakeups.publish(*topics, *map(right_topic, ids), worker_topic(worker_id))
            self._dispatch()
            return ids

        return then(self._ports.write(take_back, durable=True), tell)

    # --- looking ---------------------------------------------------------------------------

    def credential(self, credential_id: str) -> Credential:
        with self._ports.store.read() as reader:
            row = reader.credential(credential_id)
        if row is None:
            raise _no_such(credential_id)
        return row

    def credentials(self) -> list[Credential]:
        with self._ports.store.read() as reader:
            return reader.credentials()

    def audit(self, after: int = 0, limit: int = 1000) -> list[AuditEvent]:
        with self._ports.store.read() as reader:
            return reader.audit(after, limit)

    # --- inside ----------------------------------------------------------------------------

    @property
    def _coarse(self) -> float:
        return self._ports.settings.used_seconds

    def _known(self, credential_id: str) -> Credential | None:
        now = self._ports.clock.monotonic()
        at, row = self._believed.get(credential_id, (float("-inf"), None))
        if row is None or now - at >= self._ports.settings.believed_seconds:
            with self._ports.store.read() as reader:
                row = reader.credential(credential_id)
            if row is None:
                return None
            if len(self._believed) >= _MOST_BELIEVED:
                self._believed.clear()
            self._believed[credential_id] = (now, row)
        return row

    def _used(self, row: Credential, now: float) -> None:
        """Note it down, not waiting for it; a predecessor's overlap ends here."""
        seen = dataclasses.replace(row, used_at=now, replaces="")
        self._believed[row.id] = (self._ports.clock.monotonic(), seen)

        def note(tx: Tx) -> str:
            current = tx.credential(row.id)
            if current is None:
                return ""
            tx.put_credential(dataclasses.replace(current, used_at=now, replaces=""))
            old = tx.credential(row.replaces) if row.replaces else None
            if old is not None and old.revoked_at is None:
                tx.put_credential(rules.revoked(old, now))
            return row.replaces

        def tell(replaced: str) -> None:
            if replaced:
                self._believed.pop(replaced, None)
                self._ports.wakeups.publish(right_topic(replaced))

        then(self._ports.write(note), tell)

    def _take_back(self, tx: Tx, row: Credential, by: Principal, now: float) -> None:
        if row.revoked_at is None:
            tx.put_credential(rules.revoked(row, now))
            tx.note(noted(now, "revoked", row.id, by.credential_id or by.role, row.name))

    def doubt(self, topics: Collection[str] | None) -> None:
        """Another plane has changed rights (None: may have): believe nothing read before."""
        if topics is None or any(topic.startswith(right_topic("")) for topic in topics):
            self._believed.clear()

    def changed(self, row: Credential) -> Credential:
        """Believe nothing of what was read of it before; who is held for it looks again."""
        self._believed.pop(row.id, None)
        self._ports.wakeups.publish(right_topic(row.id))
        return row


def unauthorized(why: str, row: Credential | None = None) -> RefusedError:
    """`row`: for who has shown its secret, the credential's name."""
    called = f" '{row.name}'" if row is not None and row.name else ""
    again = "join" if row is not None and row.role is Role.WORKER else "login"
    return RefusedError(
        "unauthorized",
        f"the plane does not take this credential{called}",
        why=why,
        hint=("gpulayer invite" if again == "join" else "gpulayer invite --client"),
    )


def is_same(row: Credential, shown: Presented) -> bool:
    return row.kind is shown.kind and hmac.compare_digest(row.digest, shown.digest)


def noted(at: float, kind: str, credential_id: str, actor: str, note: str) -> AuditEvent:
    return AuditEvent(0, at, kind, credential_id, actor, note[:200])


def _no_such(credential_id: str) -> NotFoundError:
    return NotFoundError(
        "token-not-found",
        f"no token is called {credential_id!r}",
        hint="gpulayer token ls",
    )
