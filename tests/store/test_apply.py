"""Changes are written whole or not at all, and never against the law of states."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpulayer.contracts.changes import Changes, JobUpdate, NewEvent, TaskUpdate
from gpulayer.contracts.ids import JobId, TaskId
from gpulayer.contracts.records import Output, Result
from gpulayer.contracts.states import (
    TERMINAL_JOB_STATES,
    TERMINAL_TASK_STATES,
    JobState,
    Reason,
    TaskState,
    may_move,
)
from gpulayer.errors import GPULayerError
from gpulayer.storage import Store, Tx
from tests.support.records import (
    a_job,
    a_task,
    apply,
    end,
    ending,
    job_of,
    place,
    placement,
    run_through,
    submit,
)

JOB = JobId("train-1")


def snapshot(store: Store) -> tuple[object, ...]:
    with store.read() as reader:
        return (
            reader.jobs(),
            reader.tasks(JOB),
            reader.events(JOB),
            reader.results(JOB),
            reader.outputs(JOB),
            reader.counts(),
        )


def move(job_id: str, before: JobState, version: int, after: JobState) -> JobUpdate:
    ended = 9.0 if after in TERMINAL_JOB_STATES else None
    return JobUpdate(JobId(job_id), before, version, {"state": after, "finished_at": ended})


def test_an_update_sets_its_values_and_counts_the_version(store: Store):
    submit(store, a_job())
    values = {"cancel_requested_at": 4.0, "cancel_mode": "term", "cancel_reason": Reason.USER}
    assert apply(store, Changes(job_updates=(JobUpdate(JOB, JobState.QUEUED, 0, values),)))
    job = job_of(store, JOB)
    assert (job.cancel_requested_at, job.cancel_mode, job.version) == (4.0, "term", 1)
    assert job.cancel_reason is Reason.USER
    assert apply(store, Changes(job_updates=(JobUpdate(JOB, JobState.QUEUED, 1, {}),)))
    assert job_of(store, JOB).version == 2


@pytest.mark.parametrize("index", range(3))
def test_one_broken_guard_and_nothing_is_written(store: Store, index: int):
    submit(store, a_job(), a_job("other-1"))
    task = place(store, JOB)
    before = snapshot(store)
    good = Changes(
        task_updates=(TaskUpdate(task.id, TaskState.ASSIGNED, {"phase": "staging"}),),
        job_updates=(
            move(JOB, JobState.SCHEDULED, 1, JobState.RUNNING),
            move("other-1", JobState.QUEUED, 0, JobState.CANCELLED),
        ),
        events=(NewEvent(JOB, "started", "running", "started", 3.0),),
        results=(Result(JOB, 0, 1, JobState.SUCCEEDED, 0),),
    )
    broken = [
        replace(good, task_updates=(TaskUpdate(task.id, TaskState.RUNNING, {"phase": "x"}),)),
        replace(good, job_updates=(move(JOB, JobState.SCHEDULED, 0, JobState.RUNNING),)),
        replace(
            good,
            job_updates=(
                good.job_updates[0],
                move("other-1", JobState.SCHEDULED, 0, JobState.RUNNING),
            ),
        ),
    ][index]
    assert not apply(store, broken)
    assert snapshot(store) == before
    assert apply(store, good)


def test_a_guard_on_nothing_does_not_hold(store: Store):
    nobody = JobUpdate(JobId("nobody-1"), JobState.QUEUED, 0, {"message": "x"})
    assert not apply(store, Changes(job_updates=(nobody,)))
    nothing = TaskUpdate(TaskId("t7"), TaskState.ASSIGNED, {"phase": "x"})
    assert not apply(store, Changes(task_updates=(nothing,), job_updates=(nobody,)))


def test_two_steps_of_one_job_may_come_in_one_change(store: Store):
    submit(store, a_job())
    task = place(store, JOB)
    started = Changes(
        task_updates=(TaskUpdate(task.id, TaskState.ASSIGNED, {"state": TaskState.RUNNING}),),
        job_updates=(move(JOB, JobState.SCHEDULED, 1, JobState.RUNNING),),
    )
    running = replace(task, state=TaskState.RUNNING)
    job = replace(job_of(store, JOB), state=JobState.RUNNING, version=2)
    assert apply(store, started + ending(job, running))
    assert job_of(store, JOB).state is JobState.SUCCEEDED
    assert job_of(store, JOB).version == 3


def test_of_two_ends_the_first_is_kept(store: Store):
    submit(store, a_job())
    task = place(store, JOB)
    job = job_of(store, JOB)
    assert apply(store, ending(job, task, code=0))
    assert not apply(store, ending(job, task, code=1))
    with store.read() as reader:
        result = reader.result(JOB)
        assert len(reader.events(JOB)) == 3
    assert result is not None
    assert result.exit_code == 0


def reach(tx: Tx, state: JobState) -> int:
    """Lead the job from queued to `state` by legal moves; its version then."""
    road = {
        JobState.QUEUED: (),
        JobState.PROVISIONING: (JobState.PROVISIONING,),
        JobState.SCHEDULED: (JobState.SCHEDULED,),
        JobState.TIMED_OUT: (JobState.SCHEDULED, JobState.TIMED_OUT),
    }.get(state, (JobState.SCHEDULED, state))
    now, version = JobState.QUEUED, 0
    for after in road:
        assert tx.apply(Changes(job_updates=(move(JOB, now, version, after),)))
        now, version = after, version + 1
    return version


@pytest.mark.parametrize("before", JobState)
def test_the_database_knows_every_legal_move_of_a_job(before: JobState):
    for after in JobState:
        store = Store(":memory:", inline=True)
        submit(store, a_job())
        version = store.write(lambda tx: reach(tx, before)).result()
        moved = store.write(
            lambda tx, a=after, v=version: tx.apply(Changes(job_updates=(move(JOB, before, v, a),)))
        )
        if before is after or may_move(before, after):
            assert moved.result()
            assert job_of(store, JOB).state is after
        else:
            with pytest.raises(GPULayerError, match="illegal job move"):
                moved.result()
            assert job_of(store, JOB).state is before
        store.close()


@pytest.mark.parametrize("before", TaskState)
def test_the_database_knows_every_legal_move_of_a_task(before: TaskState):
    for after in TaskState:
        store = Store(":memory:", inline=True)
        submit(store, a_job())
        ended = 9.0 if before in TERMINAL_TASK_STATES else None
        task = a_task(1, state=before, finished_at=ended)
        assert apply(store, Changes(tasks=(task,)))
        ended = 9.0 if after in TERMINAL_TASK_STATES else None
        update = TaskUpdate(task.id, before, {"state": after, "finished_at": ended})
        moved = store.write(lambda tx, u=update: tx.apply(Changes(task_updates=(u,))))
        if before is after or may_move(before, after):
            assert moved.result()
        else:
            with pytest.raises(GPULayerError, match="illegal task move"):
                moved.result()
        store.close()


def test_an_illegal_move_tells_the_story_of_its_job(store: Store):
    run_through(store, JOB)
    wrong = Changes(job_updates=(move(JOB, JobState.SUCCEEDED, 2, JobState.RUNNING),))
    with pytest.raises(GPULayerError) as refused:
        apply(store, wrong)
    assert refused.value.code == "internal"
    assert refused.value.job_id == JOB
    assert "1 submitted (queued), 2 placed (scheduled), 3 finished (succeeded)" in refused.value.why


def test_only_an_ended_row_has_an_end(store: Store):
    submit(store, a_job())
    before = snapshot(store)
    for values in (
        {"finished_at": 5.0},
        {"state": JobState.FAILED},
        {"state": JobState.SCHEDULED, "finished_at": 5.0},
    ):
        wrong = Changes(job_updates=(JobUpdate(JOB, JobState.QUEUED, 0, values),))
        with pytest.raises(GPULayerError, match="CHECK"):
            apply(store, wrong)
    with pytest.raises(GPULayerError, match="CHECK"):
        apply(store, Changes(tasks=(a_task(1, state=TaskState.LOST),)))
    assert snapshot(store) == before


def test_a_rank_of_an_element_has_one_live_task(store: Store):
    submit(store, a_job())
    first = place(store, JOB)
    assert apply(store, Changes(tasks=(a_task(101, rank=1), a_task(102, index=1))))
    with pytest.raises(GPULayerError, match="UNIQUE"):
        apply(store, Changes(tasks=(a_task(103, attempt=2),)))
    lost = {"state": TaskState.LOST, "finished_at": 3.0}
    assert apply(store, Changes(task_updates=(TaskUpdate(first.id, TaskState.ASSIGNED, lost),)))
    assert apply(store, Changes(tasks=(a_task(103, attempt=2),)))


def test_a_fence_is_used_once(store: Store):
    submit(store, a_job(), a_job("other-1"))
    assert apply(store, placement(job_of(store, JOB), a_task(7)))
    with pytest.raises(GPULayerError, match="UNIQUE"):
        apply(store, placement(job_of(store, "other-1"), a_task(7, "other-1")))
    assert job_of(store, "other-1").state is JobState.QUEUED


def test_tasks_come_back_as_they_went_in(store: Store):
    submit(store, a_job())
    task = a_task(
        5,
        gpus=("GPU-a", "GPU-b"),
        cpu_cores=0.5,
        memory_gb=2.0,
        disconnected_since=7.5,
        message="é",
    )
    assert apply(store, placement(job_of(store, JOB), task))
    update = {"state": TaskState.RUNNING, "log_size": 10, "log_complete": True}
    assert apply(store, Changes(task_updates=(TaskUpdate(task.id, TaskState.ASSIGNED, update),)))
    with store.read() as reader:
        assert reader.task(task.id) == replace(
            task, state=TaskState.RUNNING, log_size=10, log_complete=True
        )


def test_live_tasks_are_asked_for_by_worker_or_job(store: Store):
    for n, worker in enumerate(("lab-1", "lab-2", "lab-1")):
        submit(store, a_job(f"a-{n}"))
        place(store, f"a-{n}", worker_id=worker)
    run_through(store, "done-1")
    with store.read() as reader:

        def live(**which: str) -> list[str]:
            return [task.job_id for task in reader.live_tasks(**which)]

        assert live() == ["a-0", "a-1", "a-2"]
        assert live(worker_id="lab-1") == ["a-0", "a-2"]
        assert live(job_id="a-1") == ["a-1"]
        assert live(job_id="a-1", worker_id="lab-1") == []
        assert live(job_id="done-1") == []
        assert len(reader.tasks(JobId("done-1"))) == 1


def test_attempts_are_listed_in_order(store: Store):
    submit(store, a_job())
    for _ in range(3):
        task = place(store, JOB)
        job = job_of(store, JOB)
        lost = {"state": TaskState.LOST, "finished_at": 3.0}
        assert apply(
            store,
            Changes(
                task_updates=(TaskUpdate(task.id, task.state, lost),),
                job_updates=(move(JOB, job.state, job.version, JobState.QUEUED),),
            ),
        )
    end(store, place(store, JOB))
    with store.read() as reader:
        assert [task.attempt for task in reader.tasks(JOB)] == [1, 2, 3, 4]
        result = reader.result(JOB)
    assert result is not None
    assert result.attempt == 4


def test_results_and_outputs_are_kept_by_element(store: Store):
    submit(store, a_job())
    results = (
        Result(JOB, 1, 1, JobState.SUCCEEDED, 0, value='{"loss": 0.5}', finished_at=2.0),
        Result(JOB, 0, 1, JobState.FAILED, 1, error={"type": "ValueError", "n": 1}),
    )
    outputs = (
        Output(JOB, 1, "b/caf\udce9.bin", "a" * 64, 5),
        Output(JOB, 0, "run.sh", "b" * 64, 0, executable=True),
    )
    assert apply(store, Changes(results=results, outputs=outputs))
    with store.read() as reader:
        assert reader.results(JOB) == [results[1], results[0]]
        assert reader.result(JOB, 1) == results[0]
        assert reader.result(JOB, 2) is None
        assert reader.outputs(JOB) == [outputs[1], outputs[0]]
        assert reader.digests_in_use() == {"a" * 64, "b" * 64}


def test_a_result_is_written_once(store: Store):
    run_through(store, JOB)
    before = snapshot(store)
    with pytest.raises(GPULayerError, match="UNIQUE"):
        apply(store, Changes(results=(Result(JOB, 0, 2, JobState.FAILED, 1),)))
    assert snapshot(store) == before


def test_ends_are_numbered_in_their_order_and_asked_for_by_session(store: Store):
    with store.read() as reader:
        assert reader.last_end() == 0
    for name, session in (("a-1", "mine"), ("b-1", "theirs"), ("c-1", "mine"), ("d-1", "mine")):
        submit(store, a_job(name, origin={"session": session}))
    for name in ("c-1", "b-1", "a-1"):
        end(store, place(store, name))
    with store.read() as reader:
        ends = reader.ended_of_session("mine", after=0, limit=10)
        assert [job_id for _, job_id in ends] == ["c-1", "a-1"]
        assert reader.last_end() == ends[-1][0]
        assert reader.ended_of_session("mine", after=ends[0][0], limit=10) == ends[1:]
        assert reader.ended_of_session("mine", after=0, limit=1) == ends[:1]
        assert reader.ended_of_session("nobody", after=0, limit=10) == []


def test_events_are_numbered_without_a_gap(store: Store):
    submit(store, a_job(), a_job("other-1"))
    told = [
        NewEvent(job, f"k{n}", "queued", "submitted", float(n), data={"n": n})
        for n in range(3)
        for job in (JOB, JobId("other-1"))
    ]
    assert apply(store, Changes(events=tuple(told)))
    with pytest.raises(GPULayerError):
        apply(store, Changes(events=(told[0],), tasks=(a_task(1, state=TaskState.LOST),)))
    assert apply(store, Changes(events=(told[0],)))
    with store.read() as reader:
        events = reader.events(JOB)
        assert [event.seq for event in events] == [1, 2, 3, 4, 5]
        assert [event.data for event in events[1:4]] == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert reader.events(JOB, after=3) == events[3:]
        assert reader.events(JOB, after=1, limit=2) == events[1:3]
        assert reader.last_events(JOB, 2) == events[3:]
        assert [event.seq for event in reader.events(JobId("other-1"))] == [1, 2, 3, 4]


def test_nothing_is_written_about_a_job_that_is_not_there(store: Store):
    ghost = JobId("ghost-1")
    for changes in (
        Changes(events=(NewEvent(ghost, "k", "queued", "submitted", 1.0),)),
        Changes(tasks=(a_task(1, ghost),)),
        Changes(results=(Result(ghost, 0, 1, JobState.FAILED, 1),)),
    ):
        with pytest.raises(GPULayerError, match="FOREIGN KEY"):
            apply(store, changes)


def test_what_was_sent_ahead_is_told_by_priority_then_by_age_until_it_begins(store: Store):
    phases = {"a": "ahead", "b": "assigned", "c": "recalled", "d": "ahead"}
    for name, phase in phases.items():
        submit(store, a_job(name, priority=5 if name == "d" else 0))
        task = place(store, name, worker_id="lab-1")
        update = TaskUpdate(task.id, TaskState.ASSIGNED, {"phase": phase})
        assert apply(store, Changes(task_updates=(update,)))
    with store.read() as reader:
        told = [(one.job_id, one.worker_id, one.is_recalled) for one in reader.sent_ahead()]
    assert told == [("d", "lab-1", False), ("a", "lab-1", False), ("c", "lab-1", True)]
