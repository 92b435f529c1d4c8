"""Credentials and what is noted about them, on every engine."""

from __future__ import annotations

import dataclasses

import pytest

from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.principals import AuditEvent, Credential, CredentialKind, Role
from gpulayer.contracts.records import Worker
from gpulayer.storage import Store

TOKEN = Credential(
    id="abc",
    kind=CredentialKind.CLIENT,
    digest="0" * 64,
    role=Role.VIEWER,
    owner="abc",
    name="lab",
    created_at=1.0,
)
SESSION = dataclasses.replace(
    TOKEN,
    id="xyz",
    kind=CredentialKind.WORKER,
    role=Role.WORKER,
    worker_id="w",
    labels={"rack": "4"},
    uses_left=3,
    expires_at=9.5,
    created_at=2.0,
)


def put(store: Store, *rows: Credential) -> None:
    for row in rows:
        store.write(lambda tx, row=row: tx.put_credential(row)).result()  # type: ignore[misc]


def test_a_credential_comes_back_as_it_was_written(store: Store) -> None:
    put(store, SESSION, TOKEN)
    with store.read() as reader:
        assert reader.credential("abc") == TOKEN
        assert reader.credential("xyz") == SESSION
        assert reader.credential("other") is None
        assert reader.credentials() == [TOKEN, SESSION]
        assert reader.credentials_of_worker("w") == [SESSION]
        assert reader.credentials_of_worker("") == []


def test_what_it_is_stays_and_what_happens_to_it_is_written(store: Store) -> None:
    put(store, SESSION)
    later = dataclasses.replace(SESSION, uses_left=2, used_at=3.0, revoked_at=4.0, digest="1" * 64)
    put(store, later)
    with store.read() as reader:
        assert reader.credential("xyz") == dataclasses.replace(later, digest=SESSION.digest)


@pytest.mark.parametrize(
    "change", [{"revoked_at": None}, {"revoked_at": 5.0}, {"uses_left": -1}, {"digest": "short"}]
)
def test_the_database_keeps_the_law(store: Store, change: dict[str, object]) -> None:
    put(store, dataclasses.replace(SESSION, revoked_at=4.0))
    fresh = {"id": "new"} if "digest" in change else {}
    changed = dataclasses.replace(SESSION, **{"revoked_at": 4.0, **change, **fresh})  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r".+"):
        store.write(lambda tx: tx.put_credential(changed)).result()
    with store.read() as reader:
        assert reader.credential("xyz") == dataclasses.replace(SESSION, revoked_at=4.0)
        assert reader.credential("new") is None


def test_notes_are_numbered_and_forgotten_by_age(store: Store) -> None:
    for at in (1.0, 2.0, 3.0):
        event = AuditEvent(0, at, "minted", "abc", "local", f"at {at}")
        store.write(lambda tx, event=event: tx.note(event)).result()  # type: ignore[misc]
    with store.read() as reader:
        first, second, third = reader.audit()
        assert (first.note, first.at) == ("at 1.0", 1.0)
        assert first.seq < second.seq < third.seq
        assert reader.audit(first.seq, 1) == [second]
    store.write(lambda tx: tx.forget_audit(2.5)).result()
    with store.read() as reader:
        assert reader.audit() == [third]


def test_a_worker_is_forgotten(store: Store) -> None:
    worker = Worker(WorkerId("w"), "w", "remote", 1, {})
    store.write(lambda tx: tx.put_worker(worker)).result()
    store.write(lambda tx: tx.delete_worker(WorkerId("w"))).result()
    store.write(lambda tx: tx.delete_worker(WorkerId("w"))).result()
    with store.read() as reader:
        assert reader.workers() == []


def test_a_credential_is_deleted(store: Store) -> None:
    put(store, TOKEN)
    store.write(lambda tx: tx.delete_credential("abc")).result()
    with store.read() as reader:
        assert reader.credentials() == []
