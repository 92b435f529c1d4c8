"""What jobs wait for: rows of those that have not ended."""

from __future__ import annotations

from gpulayer.contracts.ids import JobId
from gpulayer.contracts.states import JobState
from gpulayer.storage import Store
from tests.support.records import a_job, end, place, submit

A, B, C = JobId("a-1"), JobId("b-1"), JobId("c-1")


def test_ends_of_what_others_wait_for_are_told_until_they_are_forgotten(store: Store) -> None:
    for job in (A, B, C):
        submit(store, a_job(job))
    store.write(lambda tx: tx.put_awaits(C, [(A, True), (B, False)])).result(timeout=30)
    with store.read() as reader:
        assert reader.awaited_ends() == []
        assert reader.awaits(C) == [A, B]
        assert (reader.waiting_on(A), reader.waiting_on(B)) == ([(C, True)], [(C, False)])
    end(store, place(store, A))
    with store.read() as reader:
        assert reader.awaited_ends() == [(A, JobState.SUCCEEDED)]
    store.write(lambda tx: tx.forget_awaited(A)).result(timeout=30)
    with store.read() as reader:
        assert reader.awaited_ends() == []
        assert reader.awaits(C) == [B]


def test_one_that_was_deleted_is_told_and_who_is_deleted_waits_no_more(store: Store) -> None:
    for job in (A, B, C):
        submit(store, a_job(job))
    store.write(lambda tx: tx.put_awaits(B, [(A, True)])).result(timeout=30)
    store.write(lambda tx: tx.put_awaits(C, [(B, True)])).result(timeout=30)
    end(store, place(store, A))
    store.write(lambda tx: tx.delete_job(A)).result(timeout=30)
    end(store, place(store, C))
    store.write(lambda tx: tx.delete_job(C)).result(timeout=30)
    with store.read() as reader:
        assert reader.awaited_ends() == [(A, None)]
        assert reader.waiting_on(B) == []
