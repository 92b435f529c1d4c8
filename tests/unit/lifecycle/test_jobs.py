"""Accepted, placed, refused, cancelled."""

from __future__ import annotations

import pytest

from gpulayer.contracts.changes import NOTHING
from gpulayer.contracts.decision import (
    Check,
    Decision,
    Fit,
    Outcome,
    Placement,
    Verdict,
)
from gpulayer.contracts.ids import Fence, JobId, ShapeId, WorkerId
from gpulayer.contracts.records import Event
from gpulayer.contracts.states import TERMINAL_JOB_STATES, JobState, Reason
from gpulayer.control_plane.lifecycle import jobs
from gpulayer.control_plane.lifecycle.moves import IllegalMoveError
from tests.unit.lifecycle.records import NOW, a_job, job_after

W1, W2 = WorkerId("w1"), WorkerId("w2")


def _decision(*placements: Placement, checks: tuple[str, ...] = ()) -> Decision:
    failing = tuple(Check(name, Fit.NEVER, "some", "none") for name in checks)
    verdicts = (Verdict(W1, "w1", Fit.NEVER, failing),) if checks else ()
    outcome = Outcome.PLACED if placements else Outcome.UNSCHEDULABLE
    return Decision(JobId("job"), ShapeId("s"), outcome, placements, verdicts, "because")


def test_a_gang_is_placed_whole_with_a_fence_for_each_rank() -> None:
    decision = _decision(
        Placement(W1, 0, 2.0, 4.0, ("GPU-a",)), Placement(W2, 1, 2.0, 4.0, ("GPU-b",))
    )
    job = a_job(JobState.QUEUED)
    changes = jobs.placed(job, decision, [Fence(5), Fence(6)], {W1: 3, W2: 9}, NOW)
    assert [(t.id, t.rank, t.worker_id, t.incarnation, t.attempt) for t in changes.tasks] == [
        ("t5", 0, "w1", 3, 1),
        ("t6", 1, "w2", 9, 1),
    ]
    assert job_after(changes)["state"] is JobState.SCHEDULED
    assert job_after(changes)["attempt"] == 1


@pytest.mark.parametrize(
    ("checks", "slug"),
    [
        (("gpu_count",), "no-gpu"),
        (("python",), "python-mismatch"),
        (("memory",), "no-matching-worker"),
    ],
)
def test_an_unschedulable_job_says_which_kind_of_want_it_is(
    checks: tuple[str, ...], slug: str
) -> None:
    assert jobs.kind_of_want(_decision(checks=checks)) == slug


def test_a_job_that_ends_before_it_began_says_why() -> None:
    waits, why = a_job(JobState.QUEUED), "nobody has it"
    changes = jobs.failed(waits, Reason.UNSCHEDULABLE, why, "no-gpu", NOW)
    assert job_after(changes)["reason"] is Reason.UNSCHEDULABLE
    assert changes.results[0].error == {"slug": "no-gpu", "message": why}


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.PROVISIONING])
def test_cancelling_what_waits_is_done_at_once(state: JobState) -> None:
    changes = jobs.cancelled(a_job(state), "term", 10.0, Reason.USER, NOW)
    assert job_after(changes)["state"] is JobState.CANCELLED
    assert job_after(changes)["finished_at"] == NOW
    assert changes.results[0].state is JobState.CANCELLED


@pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.RUNNING])
def test_cancelling_what_a_worker_has_is_a_flag(state: JobState) -> None:
    changes = jobs.cancelled(a_job(state), "int", 3.0, Reason.USER, NOW)
    assert "state" not in job_after(changes)
    assert job_after(changes)["cancel_mode"] == "int"
    assert job_after(changes)["cancel_grace"] == 3.0
    assert changes.events[0].kind == "cancelling"
    assert not changes.results


@pytest.mark.parametrize("state", sorted(TERMINAL_JOB_STATES))
def test_cancelling_what_has_ended_changes_nothing(state: JobState) -> None:
    assert jobs.cancelled(a_job(state), "kill", 0.0, Reason.USER, NOW) is NOTHING


def test_only_a_firmer_cancel_replaces_one() -> None:
    job = a_job(JobState.RUNNING, cancel_mode="term", cancel_requested_at=NOW - 5)
    assert jobs.cancelled(job, "int", 10.0, Reason.USER, NOW) is NOTHING
    assert jobs.cancelled(job, "term", 10.0, Reason.USER, NOW) is NOTHING
    firmer = job_after(jobs.cancelled(job, "kill", 10.0, Reason.USER, NOW))
    assert firmer["cancel_mode"] == "kill"
    assert firmer["cancel_requested_at"] == NOW - 5


def test_an_illegal_move_tells_the_story_of_the_job() -> None:
    job = a_job(JobState.SUCCEEDED)
    with pytest.raises(IllegalMoveError) as raised:
        jobs.placed(job, _decision(Placement(W1, 0, 1.0, 0.0, ())), [Fence(1)], {W1: 1}, NOW)
    raised.value.tell([Event(job.id, 4, NOW, "finished", "succeeded", "exited")])
    assert "cannot go from succeeded to scheduled" in str(raised.value)
    assert "4 finished (succeeded, exited)" in str(raised.value)
