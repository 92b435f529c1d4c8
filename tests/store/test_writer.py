"""Commands share a transaction and nothing else: a bad one fails alone, order is kept, and what
was answered is there."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import Literal

import pytest

from gpulayer.contracts.changes import Changes, NewEvent
from gpulayer.contracts.ids import JobId
from gpulayer.errors import GPULayerError, UnreachableError
from gpulayer.storage import Store, Tx
from tests.support.records import a_job, apply, submission, submit


class Hold:
    """Keeps the writer in a first command, so that what is put meanwhile shares a batch."""

    def __init__(self, store: Store) -> None:
        self._busy, self._go = threading.Event(), threading.Event()
        self._first = store.write(self._wait)
        assert self._busy.wait(30)

    def _wait(self, tx: Tx) -> bool:
        self._busy.set()
        return self._go.wait(30)

    def release(self) -> None:
        self._go.set()
        assert self._first.result(timeout=30)


def fail_after_writing(tx: Tx) -> None:
    assert tx.apply(submission(a_job("bad-1")))
    raise ValueError("bad")


def fail_at_once(tx: Tx) -> None:
    raise ValueError("refused")


def break_the_law(tx: Tx) -> None:
    tx.apply(Changes(events=(NewEvent(JobId("ghost-1"), "k", "queued", "submitted", 1.0),)))


@pytest.mark.parametrize("bad", [fail_after_writing, fail_at_once, break_the_law])
@pytest.mark.parametrize("position", [0, 2, 4])
def test_a_bad_command_fails_alone(path: str, bad, position: int):
    commits: list[str] = []
    store = Store(path, fault=commits.append)
    hold = Hold(store)
    good = [lambda tx, n=n: tx.apply(submission(a_job(f"good-{n}"))) for n in range(4)]
    commands = [*good[:position], bad, *good[position:]]
    answers = [store.write(command) for command in commands]
    hold.release()
    with pytest.raises((ValueError, GPULayerError)):
        answers.pop(position).result(timeout=30)
    assert [answer.result(timeout=30) for answer in answers] == [True] * 4
    with store.read() as reader:
        assert [job.id for job in reader.jobs()] == ["good-3", "good-2", "good-1", "good-0"]
        assert reader.unfinished() == 4
    store.close()
    assert commits.count("committed") <= 4


def test_several_bad_commands_fail_alone(path: str):
    store = Store(path)
    hold = Hold(store)
    answers = [
        store.write(
            fail_after_writing
            if n % 3 == 0
            else lambda tx, n=n: tx.apply(submission(a_job(f"good-{n}")))
        )
        for n in range(20)
    ]
    hold.release()
    wait(answers, timeout=30)
    assert [n for n, answer in enumerate(answers) if answer.exception()] == list(range(0, 20, 3))
    with store.read() as reader:
        assert reader.unfinished() == 13
    store.close()


def test_what_has_piled_up_is_one_transaction(path: str):
    points: list[str] = []
    store = Store(path, fault=points.append)
    hold = Hold(store)
    answers = [store.write(lambda tx, n=n: tx.set_meta("n", str(n))) for n in range(50)]
    hold.release()
    wait(answers, timeout=30)
    store.close()
    assert points.count("committed") == 2


def test_two_commands_that_belong_together_share_a_commit(path: str):
    points: list[str] = []
    store = Store(path, fault=points.append)
    one, other = store.write_both(
        lambda tx: tx.set_meta("a", "1"), lambda tx: tx.meta("a"), durable=True
    )
    assert (one.result(30), other.result(30)) == (None, "1")
    assert points.count("committed") == 1
    one, other = store.write_both(lambda tx: tx.set_meta("a", "2"), fail_after_writing)
    assert one.result(30) is None
    with pytest.raises(ValueError, match="bad"):
        other.result(30)
    with store.read() as reader:
        assert reader.meta("a") == "2"
    store.close()


def test_answers_come_after_the_commit_and_reads_see_them(store: Store):
    for n in range(20):
        submit(store, a_job(f"a-{n}"))
        with store.read() as reader:
            assert reader.unfinished() == n + 1


def test_commands_of_one_thread_keep_their_order(store: Store):
    def append(tx: Tx, letter: str) -> str:
        text = (tx.meta("text") or "") + letter
        tx.set_meta("text", text)
        return text

    answers = [store.write(lambda tx, c=letter: append(tx, c)) for letter in "abcdefgh"]
    assert answers[-1].result(timeout=30) == "abcdefgh"


def test_many_threads_may_write_and_read(store: Store):
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for n in range(20):
                submit(store, a_job(f"{name}-{n}", idempotency_key=f"{name}{n}"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    with store.read() as reader:
        assert reader.unfinished() == 120
        assert len({job.seq for job in reader.jobs()}) == 120


def test_one_read_is_one_instant(path: str):
    store = Store(path)
    submit(store, a_job("a-1"))
    with store.read() as reader:
        assert reader.unfinished() == 1
        submit(store, a_job("a-2"))
        assert reader.unfinished() == 1
        assert len(reader.jobs()) == 1
    with store.read() as reader:
        assert reader.unfinished() == 2
    store.close()


def test_a_reader_cannot_write(path: str):
    store = Store(path)
    with pytest.raises(GPULayerError), store.read() as reader:
        reader._execute("DELETE FROM jobs", ())
    store.close()


def test_an_error_of_the_reader_is_its_own(store: Store):
    with pytest.raises(OSError, match="mine"), store.read():
        raise OSError("mine")
    submit(store, a_job())


def test_an_accepted_command_cannot_be_cancelled(path: str):
    store = Store(path)
    hold = Hold(store)
    answer: Future[None] = store.write(lambda tx: tx.set_meta("a", "b"))
    assert not answer.cancel()
    hold.release()
    answer.result(timeout=30)
    store.close()


def test_closing_commits_what_was_accepted_and_then_refuses(store: Store):
    answers = [
        store.write(lambda tx, n=n: tx.apply(submission(a_job(f"a-{n}")))) for n in range(100)
    ]
    twin = Store(":memory:")
    accepted = [
        twin.write(lambda tx, n=n: tx.apply(submission(a_job(f"a-{n}")))) for n in range(100)
    ]
    twin.close()
    twin.close()
    assert all(answer.done() and answer.result() for answer in accepted)
    for late in (lambda: twin.write(lambda tx: None), lambda: twin.read().__enter__()):
        with pytest.raises(UnreachableError, match="closed"):
            late()
    assert all(answer.result(timeout=30) for answer in answers)


@pytest.mark.parametrize(("durability", "level"), [("process", 1), ("power", 2)])
def test_a_durable_command_waits_for_the_disk_only_where_power_counts(
    path: str, durability: Literal["process", "power"], level: int
):
    seen: list[int] = []

    def look(point: str) -> None:
        if point == "commit":
            seen.append(store._writing.execute("PRAGMA synchronous").fetchone()[0])

    store = Store(path, inline=True, durability=durability, fault=look)
    store.write(lambda tx: tx.set_meta("a", "b"), durable=True).result()
    store.write(lambda tx: tx.set_meta("a", "c")).result()
    store.close()
    assert seen == [level, 1]


def test_a_fault_in_the_simulator_is_the_death_of_the_plane():
    class PlaneDied(BaseException):
        pass

    die_at = [0]
    points: list[str] = []

    def fault(point: str) -> None:
        points.append(point)
        if len(points) == die_at[0]:
            raise PlaneDied

    store = Store(":memory:", inline=True, fault=fault)
    submit(store, a_job("a-0"))
    per_submit = len(points)
    for step in range(1, per_submit + 1):
        points.clear()
        die_at[0] = step
        with pytest.raises(PlaneDied):
            store.write(lambda tx, n=step: tx.apply(submission(a_job(f"a-{n}"))))
        committed = "committed" in points
        die_at[0] = 0
        with store.read() as reader:
            there = reader.job(JobId(f"a-{step}")) is not None
        assert there == committed
    assert apply(store, submission(a_job("z-1")))
    assert store.check() == ()
    store.close()
