"""The connection breaks, anywhere: nothing is written twice, nothing that was answered is lost."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from gpulayer.contracts.ids import JobId
from gpulayer.errors import StorageError
from gpulayer.storage import Store, Tx
from tests.support.cut_line import CutLine
from tests.support.postgres import PostgresServer
from tests.support.records import a_job, apply, place, submission, submit


@pytest.fixture
def line(postgres: PostgresServer) -> Iterator[CutLine]:
    line = CutLine(postgres.shared())
    yield line
    line.close()


def jobs_of(address: str) -> list[str]:
    with psycopg.connect(address) as connection:
        rows = connection.execute("SELECT id FROM gpulayer.jobs ORDER BY seq").fetchall()
        return [job_id for (job_id,) in rows]


@pytest.mark.parametrize("inline", [False, True], ids=["thread", "inline"])
@pytest.mark.parametrize(
    ("word", "delivers", "times"),
    [
        (b"COMMIT", True, 1),  # kept, and the answer lost
        (b"COMMIT", False, 2),
        (b"BEGIN", False, 1),
        (b"INSERT INTO jobs", True, 2),
        (b"INSERT INTO jobs", False, 2),
        (b"BEGIN", True, 1),
    ],
)
def test_a_cut_in_a_commit_is_found_out_and_done_once(
    line: CutLine, word: bytes, delivers: bool, times: int, inline: bool
):
    store = Store(line.address, inline=inline, durability="power")
    runs: list[int] = []

    def command(tx: Tx) -> list[int]:
        runs.append(1)
        assert tx.apply(submission(a_job("one-1")))
        return tx.next_fences(2)

    held = place_one(store)
    line.cut_at(word, delivers=delivers)
    fences = store.write(command, durable=True).result(30)
    assert line.cuts == 1
    assert len(runs) == times
    assert jobs_of(line.address) == ["before-1", "one-1"]
    after = store.write(lambda tx: tx.next_fence()).result(30)
    assert len({held, *fences, after}) == 4
    submit(store, a_job("after-1"))
    store.close()


def place_one(store: Store) -> int:
    submit(store, a_job("before-1"))
    return place(store, "before-1").fence


def test_a_read_that_breaks_fails_and_the_next_one_is_good(line: CutLine):
    store = Store(line.address)
    submit(store, a_job())
    with store.read() as reader:
        assert len(reader.jobs()) == 1
    line.cut_at(b"FROM jobs", delivers=False)
    with pytest.raises(StorageError) as broken, store.read() as reader:
        reader.find_jobs("last")
    assert broken.value.code == "database-unreachable"
    with store.read() as reader:
        assert len(reader.jobs()) == 1
    line.cut_at(b"BEGIN ISOLATION", delivers=False)
    with store.read() as reader:  # it broke while nobody used it: nobody is told
        assert len(reader.jobs()) == 1
    store.close()


@pytest.mark.parametrize("kept", [True, False])
def test_what_cannot_be_found_out_is_said_and_the_same_key_mends_it(line: CutLine, kept: bool):
    store = Store(line.address)
    held = place_one(store)
    store._writing.patience = (0.0, 0.01)
    line.cut_at(b"COMMIT", delivers=kept, stays_cut=True)

    def command(tx: Tx) -> int:
        if tx.job_by_key("key") is None:
            assert tx.apply(submission(a_job("one-1", idempotency_key="key")))
        return tx.next_fence()

    error = store.write(command).exception(30)
    assert isinstance(error, StorageError)
    assert error.code == "database-unreachable"
    assert "not known" in error.message
    with pytest.raises(StorageError), store.read():
        pass
    line.mend()
    fence = store.write(command).result(30)
    assert jobs_of(line.address) == ["before-1", "one-1"]
    assert fence > held
    store.close()


def test_a_killed_connection_costs_nothing(postgres: PostgresServer):
    address = postgres.shared()
    store = Store(address)
    for n in range(4):
        submit(store, a_job(f"a-{n}"))
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'gpulayer' AND datname = current_database()"
            )
    assert jobs_of(address) == [f"a-{n}" for n in range(4)]
    store.close()


def test_a_server_that_dies_is_waited_for_and_has_kept_what_was_answered():
    server = PostgresServer()
    try:
        store = Store(server.fresh(), durability="power")
        before = submission(a_job("before-1"))
        assert store.write(lambda tx: tx.apply(before), durable=True).result(30)
        server.kill()
        answer = store.write(lambda tx: tx.apply(submission(a_job("during-1"))), durable=True)
        server.start()
        assert answer.result(60)
        with store.read() as reader:
            assert [job.id for job in reader.jobs()] == ["during-1", "before-1"]
        store.close()
    finally:
        server.close()


def test_a_full_disk_accepts_nothing_and_recovers_by_itself(line: CutLine):
    """As the server tells it; that the error is real is the server's own matter."""
    store = Store(line.address)
    submit(store, a_job("before-1"))

    def full(tx: Tx) -> None:
        tx.apply(submission(a_job("lost-1")))
        tx._execute("SELECT gpulayer_test_full()", ())

    store.write(
        lambda tx: (
            tx._execute(
                "CREATE OR REPLACE FUNCTION gpulayer_test_full() RETURNS int LANGUAGE plpgsql AS $$"
                " BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full';"
                " END $$",
                (),
            )
            and None
        )
    ).result(30)
    answers = [store.write(full), store.write(lambda tx: tx.apply(submission(a_job("good-1"))))]
    error = answers[0].exception(30)
    assert isinstance(error, StorageError)
    assert error.code == "disk-full"
    assert answers[1].result(30)
    with store.read() as reader:
        assert reader.job(JobId("lost-1")) is None
        assert reader.unfinished() == 2
    assert apply(store, submission(a_job("after-1")))
    store.close()


def test_two_stores_write_one_database_and_neither_remembers_what_the_other_removed(
    postgres: PostgresServer,
):
    address = postgres.shared()
    one, other = Store(address), Store(address)
    from gpulayer.contracts.decision import Shape
    from gpulayer.contracts.ids import ShapeId

    shape = ShapeId("s")
    one.write(lambda tx: tx.put_shape(shape, Shape())).result(30)
    other.write(lambda tx: tx.forget_decisions()).result(30)
    one.write(lambda tx: tx.put_shape(shape, Shape())).result(30)
    with other.read() as reader:
        assert reader.shape(shape) == Shape()
    answers = [
        store.write(lambda tx, n=n: tx.apply(submission(a_job(f"{n}-1", idempotency_key=str(n)))))
        for n in range(30)
        for store in (one, other)
    ]
    fences = [store.write(lambda tx: tx.next_fences(3)) for store in (one, other) for _ in range(5)]
    outcomes = [answer.exception(30) is None for answer in answers]
    assert outcomes.count(True) == 30
    given = [fence for answer in fences for fence in answer.result(30)]
    assert len(set(given)) == len(given)
    with one.read() as reader:
        assert reader.unfinished() == 30
        assert len({job.seq for job in reader.jobs()}) == 30
    one.close()
    other.close()
