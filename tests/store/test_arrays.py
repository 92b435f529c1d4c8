"""Arrays in the store: counts and states of elements, kept by the transaction that moves one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpulayer.contracts.changes import Changes
from gpulayer.contracts.elements import ARRAY_END
from gpulayer.contracts.ids import Digest, JobId
from gpulayer.contracts.records import Chunk, Output, Progress, Result
from gpulayer.contracts.states import JobState
from gpulayer.errors import GPULayerError
from gpulayer.storage import Store
from tests.support.records import a_job, a_task, apply, end, place, submission, submit

JOB = JobId("train-1")


def begin(store: Store, count: int = 3, **limits: int) -> Progress:
    job, progress = a_job(elements=count), Progress(JOB, count, **limits)
    assert apply(store, submission(job) + Changes(progress=(progress,)))
    return progress


def put(store: Store, *rows: Progress | Chunk) -> None:
    progress = tuple(row for row in rows if isinstance(row, Progress))
    chunks = tuple(row for row in rows if isinstance(row, Chunk))
    assert apply(store, Changes(progress=progress, chunks=chunks))


def test_counts_and_states_come_back_as_they_were_written(store: Store) -> None:
    progress = begin(store, max_parallel=2, max_failures=1)
    moved = replace(progress, waiting=1, live=1, failed=1, returned=1, next=2, told=1)
    chunk = Chunk(JOB, 0, "rfl", {"0": (1, 0, 7.5)}, 7.5)
    put(store, moved, chunk, Chunk(JOB, 3, "s"))
    with store.read() as reader:
        assert reader.progress(JOB) == moved
        assert reader.chunk(JOB, 0) == chunk
        assert reader.chunk(JOB, 1) is None
        assert [c.chunk for c in reader.chunks(JOB)] == [0, 3]
        assert [c.chunk for c in reader.chunks(JOB, 1)] == [3]
        assert [c.chunk for c in reader.chunks(JOB, 0, 1)] == [0]
        assert reader.due_chunk(JOB, 7.0) is None
        assert reader.due_chunk(JOB, 7.5) == chunk
        assert [c.chunk for c in reader.bad_chunks(JOB, 9)] == [0]


def test_an_array_is_in_the_queue_as_one_and_open_until_it_has_ended(store: Store) -> None:
    progress = begin(store)
    submit(store, a_job("plain-1"))
    with store.read() as reader:
        heads = reader.ready_heads(1e9, 8)
        assert [(head.job_id, head.is_array) for head in heads] == [(JOB, True), ("plain-1", False)]
        ((pending, found),) = reader.open_arrays()
        assert (pending, found) == (heads[0], progress)
        assert reader.has_open_arrays()
    put(store, replace(progress, waiting=0, succeeded=3))
    with store.read() as reader:
        assert not reader.has_open_arrays()
        assert reader.open_arrays() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"waiting": 2},
        {"waiting": 2, "live": 2},
        {"waiting": -1, "live": 4},
        {"returned": 4},
        {"next": 0},
    ],
)
def test_the_database_takes_no_counts_that_do_not_add_up(
    store: Store, wrong: dict[str, int]
) -> None:
    progress = begin(store, max_parallel=2)
    put(store, replace(progress, next=1))
    with pytest.raises(GPULayerError):
        put(store, replace(progress, **{"next": 1, **wrong}))
    with store.read() as reader:
        assert reader.progress(JOB) == replace(progress, next=1)


def test_an_element_has_one_live_task_and_one_result(store: Store) -> None:
    begin(store)
    first = place(store, JOB, index=1)
    with pytest.raises(GPULayerError):
        apply(store, Changes(tasks=(a_task(first.fence + 1, JOB, index=1),)))
    assert apply(store, Changes(tasks=(a_task(first.fence + 2, JOB, index=2),)))
    result = Result(JOB, 1, 1, JobState.SUCCEEDED, 0)
    assert apply(store, Changes(results=(result,)))
    with pytest.raises(GPULayerError):
        apply(store, Changes(results=(replace(result, attempt=2),)))
    with store.read() as reader:
        assert [task.index for task in reader.tasks_after(JOB, 0, 9)] == [1, 2]
        assert [task.index for task in reader.tasks_after(JOB, first.fence, 9)] == [2]
        assert [task.fence for task in reader.tasks_of_element(JOB, 1)] == [first.fence]
        assert [task.index for task in reader.open_logs(JOB)] == [1, 2]


def test_a_session_hears_of_the_end_of_an_array_and_not_of_its_elements(store: Store) -> None:
    origin = {"session": "s"}
    begin(store)
    plain = submit(store, a_job("plain-1", origin=origin))[0]
    array = a_job("mine-1", elements=2, origin=origin)
    assert apply(store, submission(array) + Changes(progress=(Progress(array.id, 2),)))
    rows = [Result(array.id, index, 1, JobState.SUCCEEDED, 0) for index in (0, 1, ARRAY_END)]
    assert apply(store, Changes(results=tuple(rows)))
    end(store, place(store, plain.id))
    with store.read() as reader:
        ended = [job_id for _, job_id in reader.ended_of_session("s", 0, 9)]
        assert ended == [array.id, plain.id]
        assert [r.index for r in reader.results_after(array.id, -1, 9)] == [0, 1]
        assert [r.index for r in reader.results_after(array.id, 0, 9)] == [1]


def test_results_of_elements_are_read_in_the_order_of_their_ends(store: Store) -> None:
    begin(store)
    other = submit(store, a_job("plain-1"))[0]
    ends = [(JOB, 2), (other.id, 0), (JOB, 0), (JOB, ARRAY_END), (JOB, 1)]
    for job_id, index in ends:
        result = Result(job_id, index, 1, JobState.SUCCEEDED, 0, value=str(index))
        left = Output(job_id, index, f"out-{index}", Digest(f"{index + 1:064x}"), 1)
        assert apply(store, Changes(results=(result,), outputs=(left,)))
    with store.read() as reader:
        found = reader.results_by_end(JOB, 0, 9)
        assert [(result.index, result.value) for _, result in found] == [
            (2, "2"),
            (0, "0"),
            (1, "1"),
        ]
        assert [result.index for _, result in reader.results_by_end(JOB, found[0][0], 1)] == [0]
        assert reader.results_by_end(JOB, reader.last_end(), 9) == []
        assert [output.path for output in reader.outputs_of(JOB, 2)] == ["out-2"]


def test_an_array_goes_with_its_job(store: Store) -> None:
    progress = begin(store, 1)
    put(store, replace(progress, waiting=0, succeeded=1), Chunk(JOB, 0, "s"))
    end(store, place(store, JOB))
    assert store.write(lambda tx: tx.delete_job(JOB)).result(30)
    with store.read() as reader:
        assert reader.progress(JOB) is None
        assert reader.chunks(JOB) == []
