"""The file: who may open it, what is refused, what a full disk costs."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gpulayer.contracts.changes import Changes, TaskUpdate
from gpulayer.contracts.ids import JobId
from gpulayer.contracts.records import (
    Event,
    Job,
    KeptMetrics,
    Output,
    Progress,
    Result,
    Task,
    Worker,
)
from gpulayer.contracts.states import JOB_TRANSITIONS, TASK_TRANSITIONS
from gpulayer.errors import StorageError
from gpulayer.storage import Store, Tx
from gpulayer.storage.migrations import schema_files
from gpulayer.storage.sqlite import as_ours, lost_sync, migrate, open_writer
from gpulayer.storage.tasks import TaskReads
from tests.support.records import a_job, apply, place, run_through, submission, submit


def test_only_the_owner_can_read_the_file(path: str):
    before = os.umask(0)
    try:
        store = Store(path)
        submit(store, a_job())
        for name in ("db.sqlite", "db.sqlite-wal", "db.sqlite-shm"):
            assert (Path(path).parent / name).stat().st_mode & 0o777 == 0o600
        store.close()
    finally:
        os.umask(before)


def test_closing_leaves_one_file_that_holds_everything(path: str):
    store = Store(path)
    run_through(store, "train-1")
    with store.read() as reader:
        before = reader.jobs(), reader.events(JobId("train-1"))
    store.close()
    assert os.listdir(Path(path).parent) == ["db.sqlite"]
    again = Store(path)
    with again.read() as reader:
        assert (reader.jobs(), reader.events(JobId("train-1"))) == before
    again.close()


def test_a_reader_that_is_still_open_does_not_keep_the_store_from_closing(path: str):
    store = Store(path)
    submit(store, a_job())
    with store.read() as reader:
        assert reader.unfinished() == 1
        store.close()
        assert len(reader.jobs()) == 1
    again = Store(path)
    submit(again, a_job("other-1"))
    again.close()
    assert os.listdir(Path(path).parent) == ["db.sqlite"]


def test_the_law_in_the_file_is_the_law_of_the_contracts():
    store = Store(":memory:")

    def moves(tx: Tx, table: str) -> set[tuple[str, str]]:
        return {(row[0], row[1]) for row in tx._all(f"SELECT before, after FROM {table}")}

    for table, law in (("job_moves", JOB_TRANSITIONS), ("task_moves", TASK_TRANSITIONS)):
        legal = {(b.value, a.value) for b, onward in law.items() for a in onward}
        assert store.write(lambda tx, t=table: moves(tx, t)).result() == legal
    store.close()


@pytest.mark.parametrize(
    ("table", "record", "own"),
    [
        ("jobs", Job, {"decision_id", "session", "parent"}),
        ("tasks", Task, set()),
        ("workers", Worker, set()),
        ("events", Event, set()),
        ("results", Result, {"seq"}),
        ("outputs", Output, set()),
    ],
)
def test_every_field_of_a_record_has_its_column(table: str, record: type, own: set[str]):
    store = Store(":memory:")
    rows = store.write(lambda tx: tx._all(f"PRAGMA table_info({table})")).result()
    assert {row[1] for row in rows} == {f.name for f in fields(record)} | own
    store.close()


def test_looking_at_what_lives_costs_nothing_of_what_ended():
    """Whoever asks, the plan is one of an index that holds live tasks alone."""
    store = Store(":memory:")

    def plan(tx: Tx, **which: Any) -> str:
        said: list[str] = []

        def explain(sql: str, parameters: Any) -> Any:
            said.extend(row[3] for row in tx._execute(f"EXPLAIN QUERY PLAN {sql}", parameters))
            return tx._execute(sql, parameters)

        TaskReads(explain).live_tasks(**which)
        return " ".join(said)

    for which in ({}, {"worker_id": "w"}, {"job_id": "j"}):
        told = store.write(lambda tx, which=which: plan(tx, **which)).result()
        assert "USING INDEX tasks_live_on_worker" in told or "USING INDEX tasks_one_live" in told
    store.close()


def test_a_newer_database_is_refused_and_left_alone(path: str):
    Store(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = Path(path).read_bytes()
    with pytest.raises(StorageError, match="schema 99") as refused:
        Store(path)
    assert refused.value.code == "newer-database"
    assert Path(path).read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(path: str):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(StorageError, match="another program") as refused:
        Store(path)
    assert refused.value.code == "corrupt"
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
    connection.close()


def test_schema_files_are_applied_once_each_and_all_or_none(path: str):
    first = schema_files()
    connection = open_writer(path)
    migrate(connection, path, first)
    migrate(connection, path, first)
    second = [*first, "CREATE TABLE extra (a);\nINSERT INTO extra\n VALUES (1);\n"]
    broken = [*second, "CREATE TABLE more (a);\nCREATE TABLE extra (a);"]
    with pytest.raises(Exception, match="already exists"):
        migrate(connection, path, broken)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(first),)
    assert connection.execute("SELECT * FROM sqlite_master WHERE name = 'more'").fetchall() == []
    migrate(connection, path, second)
    migrate(connection, path, second)
    assert connection.execute("SELECT * FROM extra").fetchall() == [(1,)]
    connection.close()
    with pytest.raises(StorageError, match="newer"):
        Store(path)


def test_a_database_of_the_first_schema_is_brought_up_to_date(path: str):
    connection = open_writer(path)
    migrate(connection, path, schema_files()[:1])
    connection.execute(
        "INSERT INTO workers VALUES ('w1', 'lab', 'remote', 3, '{}', '{}', 0, 1.0, 2.0, 'n', '',"
        " '[\"t1\"]', 7)"
    )
    connection.commit()
    connection.close()
    store = Store(path)
    with store.read() as reader:
        (worker,) = reader.workers()
    assert (worker.name, worker.incarnation, worker.held) == ("lab", 3, ("t1",))
    assert (worker.place, worker.heir, worker.replaced) == ("", "", ())
    moved = dataclasses.replace(worker, place="p", heir="h", replaced=("a", "b"))
    store.write(lambda tx: tx.put_worker(moved)).result()
    with store.read() as reader:
        assert reader.workers() == [dataclasses.replace(moved, turn=reader.workers()[0].turn)]
    store.close()


def test_an_array_of_an_older_schema_keeps_its_limit_and_may_go_out_in_runs(path: str):
    connection = open_writer(path)
    migrate(connection, path, schema_files()[:10])
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("INSERT INTO arrays VALUES ('a', 7, 1, 0, 0, 0, 0, 0, 1, 0, 2, 3, 0.5)")
    connection.commit()
    connection.close()
    store = Store(path)
    with store.read() as reader:
        progress = reader.progress(JobId("a"))
    assert progress == Progress(JobId("a"), 7, 1, next=1, max_parallel=2, max_failures=3, pace=0.5)
    more = dataclasses.replace(progress, waiting=0, live=8, next=8)
    assert store.write(lambda tx: tx.apply(Changes(progress=(more,)))).result()
    with store.read() as reader:
        assert reader.progress(JobId("a")) == more
    store.close()


@pytest.mark.parametrize(
    "text", [b"not a database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_what_is_no_database_is_refused(path: str, text: bytes):
    Path(path).write_bytes(text)
    with pytest.raises(StorageError) as refused:
        Store(path)
    assert refused.value.code == "corrupt"
    assert Path(path).read_bytes() == text


def test_damage_is_found_by_a_check(path: str):
    store = Store(path)
    submit(store, *(a_job(f"a-{n}") for n in range(50)))
    pages = store.write(
        lambda tx: tx._all("SELECT rootpage FROM sqlite_master WHERE name = 'jobs_by_name'")
    ).result()
    store.close()
    data = bytearray(Path(path).read_bytes())
    start = (pages[0][0] - 1) * 4096
    data[start + 200 : start + 4096] = bytes(3896)
    Path(path).write_bytes(data)
    store = Store(path)
    assert store.check() != ()
    store.close()


def test_a_deleted_folder_is_not_made_again(tmp_path: Path):
    with pytest.raises(StorageError) as refused:
        Store(tmp_path / "gone" / "db.sqlite")
    assert refused.value.code == "read-only"
    assert not (tmp_path / "gone").exists()


def test_a_full_disk_accepts_nothing_and_recovers_by_itself(path: str):
    store = Store(path)
    submit(store, a_job("before-1"))
    page_count = store.write(lambda tx: tx._number("PRAGMA page_count")).result()
    store.write(lambda tx: tx._number(f"PRAGMA max_page_count = {page_count}")).result()
    large = {"text": "x" * 50_000}
    answers = [
        store.write(lambda tx, n=n: tx.apply(submission(a_job(f"a-{n}", spec=large))))
        for n in range(20)
    ]
    for answer in answers:
        with pytest.raises(StorageError) as refused:
            answer.result(timeout=30)
        assert refused.value.code == "disk-full"
    with store.read() as reader:
        assert [job.id for job in reader.jobs()] == ["before-1"]
        assert reader.unfinished() == 1
    store.write(lambda tx: tx._number("PRAGMA max_page_count = 1000000")).result()
    assert apply(store, submission(a_job("after-1", spec=large)))
    assert store.check() == ()
    store.close()


def test_a_database_that_became_read_only_says_so(path: str):
    store = Store(path, inline=True)
    store._writing.execute("PRAGMA query_only = 1")
    with pytest.raises(StorageError) as refused:
        apply(store, submission(a_job()))
    assert refused.value.code == "read-only"
    store._writing.execute("PRAGMA query_only = 0")
    assert apply(store, submission(a_job()))
    store.close()


def test_after_a_sync_that_failed_nothing_is_acknowledged_until_a_reopen(path: str):
    failing = [False]

    def fault(point: str) -> None:
        if point == "commit" and failing[0]:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error

    store = Store(path, fault=fault)
    submit(store, a_job("before-1"))
    failing[0] = True
    for name in ("lost-1", "lost-2"):
        with pytest.raises(StorageError) as refused:
            apply(store, submission(a_job(name)))
        assert refused.value.code == "disk-error"
        failing[0] = False
    store.close()
    again = Store(path)
    with again.read() as reader:
        assert [job.id for job in reader.jobs()] == ["before-1"]
    submit(again, a_job("after-1"))
    again.close()


def test_only_a_failed_sync_is_one():
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    assert not lost_sync(error)
    assert not lost_sync(OSError())
    ours = as_ours(error, "db")
    assert isinstance(ours, StorageError)
    assert ours.code == "disk-error"


def test_a_look_at_the_package_loads_no_sqlite():
    code = "import sys, gpulayer.storage; print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout == "False\n"


def test_a_file_that_is_mostly_holes_is_written_anew_when_it_is_closed(path: str) -> None:
    store = Store(path)
    store.write(lambda tx: tx.set_meta("a", "x" * 20_000_000)).result(60)
    store.write(lambda tx: tx.set_meta("b", "kept")).result(60)
    store.write(lambda tx: tx.set_meta("a", "")).result(60)
    store.close()
    assert os.path.getsize(path) < 1_000_000
    store = Store(path)
    with store.read() as reader:
        assert reader.meta("b") == "kept"
    assert store.check() == ()
    store.close()


def test_a_database_without_preparations_goes_on_with_its_tasks(path: str):
    store = Store(path)
    run_through(store, "train-1")
    with store.read() as reader:
        before = reader.tasks(JobId("train-1"))
    store.close()
    _age(path, 2, _without_preparations)
    again = Store(path)
    with again.read() as reader:
        assert reader.tasks(JobId("train-1")) == before
    again.close()


def _age(path: str, schema: int, undo: Callable[[sqlite3.Connection], None]) -> None:
    """Make the file what an older version of us left."""
    connection = sqlite3.connect(path)
    undo(connection)
    connection.execute(f"PRAGMA user_version = {schema}")
    connection.commit()
    connection.close()


def _without_preparations(connection: sqlite3.Connection) -> None:
    """As schema 2 was."""
    connection.execute("DROP TABLE checkpoints")
    _without_arrays(connection)
    connection.execute("ALTER TABLE tasks DROP COLUMN preparation")


def _without_arrays(connection: sqlite3.Connection) -> None:
    """As schema 4 was."""
    _without_worlds(connection)
    connection.execute("DROP TABLE arrays")
    connection.execute("DROP TABLE array_chunks")
    connection.execute("ALTER TABLE jobs DROP COLUMN elements")


def test_a_database_without_worlds_goes_on_with_its_tasks(path: str):
    store = Store(path)
    run_through(store, "train-1")
    with store.read() as reader:
        before = reader.tasks(JobId("train-1"))
    assert [task.world for task in before] == [None]
    store.close()
    _age(path, 5, _without_worlds)
    again = Store(path)
    with again.read() as reader:
        assert reader.tasks(JobId("train-1")) == before
        assert reader.worlds() == reader.digests_in_use() == frozenset()
    submit(again, a_job("next-1"))
    task = place(again, "next-1")
    world = TaskUpdate(task.id, task.state, {"world": "a" * 64})
    assert apply(again, Changes(task_updates=(world,)))
    with again.read() as reader:
        assert reader.worlds_of(JobId("next-1")) == ["a" * 64]
        assert reader.worlds() == reader.digests_in_use() == {"a" * 64}
    again.close()


def _without_worlds(connection: sqlite3.Connection) -> None:
    """As schema 5 was."""
    _without_runs(connection)
    connection.execute("DROP INDEX jobs_by_call")
    connection.execute("ALTER TABLE jobs DROP COLUMN call_key")
    connection.execute("ALTER TABLE tasks DROP COLUMN world")


def test_a_database_without_runs_goes_on_with_its_tasks_and_takes_one(path: str):
    store = Store(path)
    run_through(store, "train-1")
    with store.read() as reader:
        before = reader.tasks(JobId("train-1"))
    assert [task.last for task in before] == [None]
    store.close()
    _age(path, 7, _without_runs)
    again = Store(path)
    with again.read() as reader:
        assert reader.tasks(JobId("train-1")) == before
        assert reader.awaited_ends() == []
    submit(again, a_job("next-1"))
    submit(again, a_job("then-1"))
    task = place(again, "next-1")
    assert apply(again, Changes(task_updates=(TaskUpdate(task.id, task.state, {"last": 7}),)))
    again.write(lambda tx: tx.put_awaits(JobId("then-1"), [(JobId("next-1"), True)])).result(30)
    with again.read() as reader:
        assert [task.last for task in reader.tasks(JobId("next-1"))] == [7]
        assert reader.awaits(JobId("then-1")) == ["next-1"]
    again.close()


def _without_runs(connection: sqlite3.Connection) -> None:
    """As schema 7 was."""
    _without_metrics(connection)
    connection.execute("DROP TABLE awaits")
    connection.execute('ALTER TABLE tasks DROP COLUMN "last"')
    connection.execute("ALTER TABLE arrays DROP COLUMN pace")


def _without_metrics(connection: sqlite3.Connection) -> None:
    """As schema 9 was."""
    connection.execute("DROP TABLE metrics")


def test_a_database_without_metrics_goes_on_and_takes_some(path: str):
    store = Store(path)
    run_through(store, "train-1")
    store.close()
    _age(path, 9, _without_metrics)
    again = Store(path)
    kept = KeptMetrics(JobId("train-1"), "", 0, 1, ([0, 1, "loss", [[1, 5.0, 0.5]]],))
    again.write(lambda tx: tx.put_metrics(kept)).result(30)
    with again.read() as reader:
        assert [row.series for row in reader.metrics(JobId("train-1"))] == [kept.series]
    again.close()


def test_a_database_without_arrays_goes_on_with_its_jobs_and_takes_one(path: str):
    store = Store(path)
    run_through(store, "train-1")
    submit(store, a_job("waits-1"))
    with store.read() as reader:
        before, heads = reader.jobs(), reader.ready_heads(1e9, 8)
    store.close()
    _age(path, 4, _without_arrays)
    again = Store(path)
    with again.read() as reader:
        assert reader.jobs() == before
        assert reader.ready_heads(1e9, 8) == heads
        assert not reader.has_open_arrays()
    array = dataclasses.replace(a_job("array-1"), elements=3)
    assert apply(again, submission(array) + Changes(progress=(Progress(array.id, 3),)))
    with again.read() as reader:
        assert reader.has_open_arrays()
        assert [head.is_array for head in reader.ready_heads(1e9, 8)] == [False, True]
    again.close()
