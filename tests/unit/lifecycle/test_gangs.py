"""The nodes of a gang begin and end as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from gpulayer.contracts.changes import Changes
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.records import Job, Task
from gpulayer.contracts.states import JobState, Reason, TaskState
from gpulayer.control_plane.lifecycle import gangs, tasks
from tests.unit.lifecycle.records import NOW, a_job, a_task, an_exit, job_after, task_after

WORK = {"kind": "distributed", "entrypoint": "train.py", "num_workers": 3}


def a_gang(state: JobState = JobState.RUNNING, **changes: Any) -> Job:
    return a_job(state, spec={"workload": {**WORK, **changes.pop("work", {})}}, **changes)


def nodes(state: TaskState = TaskState.RUNNING) -> list[Task]:
    return [a_task(state, fence=7 + rank, rank=rank) for rank in range(3)]


def after(job: Job, changes: Changes) -> Job:
    """The job row as the changes leave it."""
    for update in changes.job_updates:
        job = dataclasses.replace(job, **dict(update.values))
    return job


def end_all(job: Job, ends: Sequence[tuple[int, Exit]]) -> tuple[Job, list[Task], list[Changes]]:
    """Ends told in that order. Other nodes are as the changes before have left them."""
    gang = {task.rank: task for task in nodes()}
    told = []
    for rank, end in ends:
        others = [task for other, task in gang.items() if other != rank]
        changes = gangs.ended(job, gang[rank], others, end, NOW, 0.5)
        told.append(changes)
        job = after(job, changes)
        for update in changes.task_updates:
            task = next(t for t in gang.values() if t.id == update.task_id)
            gang[task.rank] = dataclasses.replace(task, **dict(update.values))
    return job, [gang[rank] for rank in range(3)], told


def failed(rank: int, at: float, code: int = 1) -> Exit:
    return an_exit("failed", exit_code=code, message=f"rank {rank}: exit code {code}",
                   failed_rank=rank, failed_at=at)  # fmt: skip


STOPPED = an_exit("cancelled", "user", exit_code=143)


def test_the_job_runs_once_all_nodes_do() -> None:
    gang = nodes(TaskState.ASSIGNED)
    job = a_gang(JobState.SCHEDULED)
    first = gangs.started(job, gang[0], gang[1:], NOW, NOW)
    assert not first.job_updates
    assert task_after(first)["state"] is TaskState.RUNNING
    others = [dataclasses.replace(task, state=TaskState.RUNNING) for task in gang[:2]]
    assert job_after(gangs.started(job, gang[2], others, NOW, NOW))["state"] is JobState.RUNNING


def test_it_succeeds_with_its_last_node_and_gives_what_rank_0_returned() -> None:
    ends = [(0, an_exit(value='"zero"')), (2, an_exit(value='"two"')), (1, an_exit())]
    job, _, told = end_all(a_gang(), ends)
    assert [bool(changes.results) for changes in told] == [False, False, True]
    assert (job.state, job.exit_code) == (JobState.SUCCEEDED, 0)
    assert told[-1].results[0].value == '"zero"'


def test_one_that_fails_asks_the_others_to_end_at_once_and_the_job_waits_for_them() -> None:
    job, gang, told = end_all(a_gang(), [(1, failed(5, NOW - 1))])
    assert (job.state, job.cancel_mode) == (JobState.RUNNING, "term")
    assert job.cancel_reason is Reason.PEER_FAILED
    (event,) = told[0].events
    assert (event.kind, event.message) == (
        "stopping", "rank 5: exit code 1; the other nodes are asked to end",
    )  # fmt: skip
    assert [task.state for task in gang] == [TaskState.RUNNING, TaskState.FAILED, TaskState.RUNNING]


def test_the_job_ends_as_the_first_failure_by_time_whoever_was_heard_first() -> None:
    ends = [(1, failed(5, NOW - 1, 1)), (2, failed(6, NOW - 3, 7)), (0, STOPPED)]
    job, gang, told = end_all(a_gang(), ends)
    assert (job.state, job.reason, job.exit_code) == (JobState.FAILED, Reason.EXITED, 7)
    assert job.message == "rank 6: exit code 7"
    assert [task.state for task in gang] == [
        TaskState.CANCELLED, TaskState.FAILED, TaskState.FAILED,
    ]  # fmt: skip
    assert gang[0].reason is Reason.PEER_FAILED
    assert sum(len(changes.results) for changes in told) == 1


def test_a_lost_node_is_the_cause_of_what_came_after_its_last_word() -> None:
    lost = tasks.lost(Reason.WORKER_LOST, "w1 was silent for 30 s", NOW - 30)
    job, _, _ = end_all(a_gang(), [(0, failed(0, NOW - 20)), (2, STOPPED), (1, lost)])
    assert (job.state, job.reason) == (JobState.FAILED, Reason.WORKER_LOST)
    assert job.message == "node 1: w1 was silent for 30 s"
    assert job.lost == 1


def test_a_clock_that_is_ahead_is_not_later_than_now() -> None:
    ends = [(0, failed(0, NOW + 1e6, 3)), (1, failed(1, NOW + 2e6, 4)), (2, STOPPED)]
    assert end_all(a_gang(), ends)[0].exit_code == 3


@pytest.mark.parametrize("last", [an_exit(), STOPPED, failed(0, NOW)])
def test_a_cancelled_gang_ends_with_its_last_node(last: Exit) -> None:
    wanted = {"cancel_requested_at": NOW, "cancel_mode": "int", "cancel_reason": Reason.USER}
    job, gang, told = end_all(a_gang(**wanted), [(2, STOPPED), (1, STOPPED), (0, last)])
    assert [bool(changes.results) for changes in told] == [False, False, True]
    assert (job.state, job.reason) == (JobState.CANCELLED, Reason.USER)
    assert {task.state for task in gang} == {TaskState.CANCELLED}


def test_a_node_past_its_time_times_the_job_out() -> None:
    end = an_exit("timed_out", "timeout", exit_code=124, ended_at=NOW - 2)
    job, _, _ = end_all(a_gang(), [(0, end), (1, STOPPED), (2, failed(2, NOW - 1))])
    assert job.state is JobState.TIMED_OUT


@pytest.mark.parametrize("reason", [Reason.WORKER_LOST, Reason.RETRACTED, Reason.PREEMPTED])
def test_a_node_lost_before_all_ran_sends_the_whole_back_and_uses_no_attempt(
    reason: Reason,
) -> None:
    gang = nodes(TaskState.ASSIGNED)
    others = [gang[0], dataclasses.replace(gang[2], state=TaskState.RUNNING)]
    job = a_gang(JobState.SCHEDULED)
    changes = gangs.ended(job, gang[1], others, tasks.lost(reason, ""), NOW, 0.5)
    back = job_after(changes)
    assert (back["state"], back["attempt"]) == (JobState.QUEUED, 0)
    assert {task_after(changes, f"t{n}")["state"] for n in (7, 8, 9)} == {TaskState.LOST}
    assert task_after(changes, "t9")["reason"] is Reason.RETRACTED


def test_a_taken_port_is_another_attempt_unless_it_was_asked_for() -> None:
    taken = an_exit("failed", "port_taken", exit_code=125, message="port 4711 is taken")
    gang = nodes()
    changes = gangs.ended(a_gang(), gang[0], gang[1:], taken, NOW, 0.5)
    assert (job_after(changes)["state"], job_after(changes)["attempt"]) == (JobState.QUEUED, 0)
    asked = a_gang(work={"rendezvous": {"port": 4711}})
    assert end_all(asked, [(0, taken), (1, STOPPED), (2, STOPPED)])[0].reason is Reason.PORT_TAKEN
    often = a_gang(lost=4)
    changes = gangs.ended(often, gang[0], gang[1:], taken, NOW, 0.5)
    assert job_after(changes)["state"] is JobState.FAILED
    assert job_after(changes)["reason"] is Reason.CRASH_LIMIT


def test_files_of_other_nodes_are_below_their_number() -> None:
    files = ({"path": "model.pt", "digest": "0" * 64, "size": 1},)
    _, _, told = end_all(a_gang(), [(n, an_exit(outputs=files)) for n in range(3)])
    paths = [output.path for changes in told for output in changes.outputs]
    assert paths == ["model.pt", "node1/model.pt", "node2/model.pt"]


def test_the_newest_attempt_is_what_counts() -> None:
    old = [a_task(TaskState.LOST, fence=n, rank=n) for n in range(3)]
    assert gangs.peers([*old, *nodes()], nodes()[1]) == [nodes()[0], nodes()[2]]
