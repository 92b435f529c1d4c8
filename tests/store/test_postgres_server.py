"""The server: what is refused, what an interruption costs, what text and numbers it takes."""

from __future__ import annotations

import threading

import psycopg
import pytest

from gpulayer.contracts.ids import JobId
from gpulayer.contracts.records import Result
from gpulayer.contracts.states import JobState
from gpulayer.errors import StorageError, UsageError
from gpulayer.storage import Store, dialect, postgres
from gpulayer.storage.migrations import schema_files
from tests.support.postgres import PostgresServer
from tests.support.records import (
    a_job,
    a_worker_row,
    apply,
    job_of,
    run_through,
    submission,
    submit,
)


@pytest.fixture
def address(postgres: PostgresServer) -> str:
    """Of a database with an empty store, shared with the other tests."""
    return postgres.shared()


def tables(address: str) -> set[str]:
    with psycopg.connect(address) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'gpulayer'")
        return {name for (name,) in rows}


def test_an_empty_database_is_filled_once_by_two_who_open_it_at_once(postgres: PostgresServer):
    address = postgres.create("empty")
    stores: list[Store] = []
    threads = [threading.Thread(target=lambda: stores.append(Store(address))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for n, store in enumerate(stores):
        submit(store, a_job(f"a-{n}"))
    assert len(stores) == 3
    with stores[0].read() as reader:
        assert len(reader.jobs()) == 3
    for store in stores:
        store.close()


def test_a_newer_schema_is_refused_and_left_alone(postgres: PostgresServer):
    address = postgres.fresh()
    with psycopg.connect(address) as connection:
        connection.execute("UPDATE gpulayer.schema_version SET version = 99")
    with pytest.raises(StorageError, match="schema 99") as refused:
        Store(address)
    assert refused.value.code == "newer-database"


def test_tables_of_somebody_else_are_refused_and_left_alone(postgres: PostgresServer):
    address = postgres.create("theirs")
    with psycopg.connect(address) as connection:
        connection.execute("CREATE SCHEMA gpulayer; CREATE TABLE gpulayer.theirs (a int)")
    with pytest.raises(StorageError, match="another program") as refused:
        Store(address)
    assert refused.value.code == "corrupt"
    assert tables(address) == {"theirs"}


def test_a_schema_that_breaks_off_half_way_leaves_nothing(postgres: PostgresServer):
    address = postgres.create("half")
    connection = postgres_connection(address)
    broken = [*schema_files(), "CREATE TABLE more (a TEXT);\nCREATE TABLE jobs (a TEXT);\n"]
    with pytest.raises(psycopg.errors.DuplicateTable):
        postgres_migrate(connection, broken)
    assert tables(address) == set()
    good = [*schema_files(), "CREATE TABLE more (a TEXT);\n"]
    for _ in range(2):
        postgres_migrate(connection, good)
    assert "more" in tables(address)
    connection.close()
    with pytest.raises(StorageError, match="newer"):
        Store(address)


def test_a_schema_without_its_number_is_not_taken_for_an_empty_one(postgres: PostgresServer):
    address = postgres.fresh()
    with psycopg.connect(address) as connection:
        connection.execute("DELETE FROM gpulayer.schema_version")
    with pytest.raises(StorageError) as refused:
        Store(address)
    assert refused.value.code == "corrupt"


def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path):
    address = f"postgresql://me:secret@/db?host={tmp_path}"
    with pytest.raises(StorageError) as refused:
        Store(address)
    assert refused.value.code == "database-unreachable"
    assert "secret" not in str(refused.value.to_json())
    assert str(tmp_path) in refused.value.where
    with pytest.raises(UsageError) as malformed:
        Store("postgresql://[secret")
    assert "secret" not in malformed.value.message


def test_a_trigger_of_another_form_is_not_translated():
    with pytest.raises(ValueError, match="only refuses"):
        dialect.schema("CREATE TRIGGER a BEFORE INSERT ON jobs BEGIN DELETE FROM jobs; END;")


def test_placeholders_are_numbered_outside_of_quotes():
    assert dialect.statement("SELECT '?', \"?\" WHERE a = ? AND b = ?") == (
        "SELECT '?', \"?\" WHERE a = $1 AND b = $2"
    )
    assert dialect.statement("SELECT ?2, ?1, ?1") == "SELECT $2, $1, $1"


@pytest.mark.parametrize("what", ["a NUL", "a surrogate", "a number past 64 bits"])
def test_a_value_that_cannot_be_held_is_refused_alone(store: Store, what: str):
    with store.read() as reader:
        before = reader.counts()
    bad = {
        "a NUL": {"message": "one\0two"},
        "a surrogate": {"message": "caf\udce9"},
        "a number past 64 bits": {"priority": 2**63},
    }[what]
    if "priority" in bad:
        with pytest.raises(UsageError, match="no store can hold"):
            apply(store, submission(a_job(**bad)))
        with store.read() as reader:
            assert reader.counts() == before
        return
    submit(store, a_job(**bad))
    shown = {"a NUL": "one\\x00two", "a surrogate": "caf\\udce9"}[what]
    assert job_of(store, "train-1").message == shown


def test_the_widest_numbers_and_any_json_come_back(store: Store):
    spec = {"text": "a\0b", "name": "caf\udce9", "deep": [[2**70, -0.0, 1e308]]}
    (job,) = submit(store, a_job(priority=2**63 - 1, spec=spec, origin={"session": "a\0b"}))
    assert (job.priority, job.spec) == (2**63 - 1, spec)
    text = '"\\u0000"' + " " * 100_000
    run_through(store, "long-1")
    with store.read() as reader:
        assert reader.find_jobs("last", session="a\0b") == [job]
        assert reader.find_jobs("a\0b") == []
    assert (
        store.write(
            lambda tx: tx._insert_result(Result(JobId("train-1"), 0, 1, JobState.FAILED, 1, text))
        ).exception(30)
        is None
    )
    with store.read() as reader:
        result = reader.result(JobId("train-1"))
    assert result is not None
    assert result.value == text


def test_a_refused_row_is_not_shown(address: str):
    store = Store(address)
    submit(store, a_job())
    hidden = a_job(spec={"env": "hidden-in-the-row"})
    error = store.write(lambda tx: tx.apply(submission(hidden))).exception(30)
    assert "UNIQUE" in str(error)
    assert "hidden-in-the-row" not in repr(error)
    store.write(lambda tx: tx.put_worker(a_worker_row(incarnation=2))).result(30)
    error = store.write(lambda tx: tx.put_worker(a_worker_row())).exception(30)
    assert "hidden" not in repr(error)
    store.close()


def postgres_connection(address: str) -> psycopg.Connection[tuple]:
    return postgres.connect(address)


def postgres_migrate(connection: psycopg.Connection[tuple], scripts: list[str]) -> None:
    postgres.migrate(connection, "here", scripts)
