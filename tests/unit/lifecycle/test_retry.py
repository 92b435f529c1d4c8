"""Another attempt or none, and when."""

from __future__ import annotations

import pytest

from gpulayer.contracts.states import JobState, Reason, TaskState
from gpulayer.control_plane.lifecycle.retry import (
    BACKOFF_CAP_SECONDS,
    CRASH_LIMIT,
    Again,
    Over,
    backoff,
    decide,
)
from tests.unit.lifecycle.records import a_job, a_task


def _decide(
    retry_on: tuple[str, ...],
    outcome: TaskState,
    reason: Reason = Reason.EXITED,
    code: int | None = None,
    *,
    began: bool = True,
    max_attempts: int = 3,
    attempt: int = 1,
    lost: int = 0,
) -> Again | Over:
    job = a_job(
        JobState.RUNNING,
        retry_on=retry_on,
        max_attempts=max_attempts,
        attempt=attempt,
        lost=lost,
    )
    return decide(job, a_task(), outcome, reason, code, began=began, jitter=0.5)


@pytest.mark.parametrize(
    ("retry_on", "outcome", "reason", "code"),
    [
        ("worker_lost", TaskState.LOST, Reason.WORKER_LOST, None),
        ("worker_lost", TaskState.LOST, Reason.SUPERVISOR_LOST, None),
        ("failed", TaskState.FAILED, Reason.EXITED, 3),
        ("timed_out", TaskState.TIMED_OUT, Reason.TIMEOUT, 143),
        ("preempted", TaskState.LOST, Reason.PREEMPTED, None),
        ("exit:3", TaskState.FAILED, Reason.EXITED, 3),
    ],
)
def test_each_word_of_retry_on_matches_its_own_end_only(
    retry_on: str, outcome: TaskState, reason: Reason, code: int | None
) -> None:
    assert isinstance(_decide((retry_on,), outcome, reason, code), Again)
    others = {"worker_lost", "failed", "timed_out", "preempted", "exit:4"} - {retry_on}
    if retry_on == "exit:3":
        others -= {"failed"}
    assert isinstance(_decide(tuple(sorted(others)), outcome, reason, code), Over) or (
        code is not None and "failed" in others and outcome is TaskState.FAILED
    )


def test_no_attempt_left_is_over() -> None:
    verdict = _decide(("failed",), TaskState.FAILED, code=1, max_attempts=2, attempt=2)
    assert verdict == Over(Reason.EXITED, 0)


def test_a_loss_before_it_began_uses_no_attempt() -> None:
    verdict = _decide((), TaskState.LOST, Reason.WORKER_LOST, began=False, max_attempts=1)
    assert verdict == Again(0.0, attempt=0, lost=1)


def test_a_retracted_task_counts_as_no_loss() -> None:
    verdict = _decide((), TaskState.LOST, Reason.RETRACTED, began=False, max_attempts=1)
    assert verdict == Again(0.0, attempt=0, lost=0)


def test_a_machine_that_its_owner_took_back_is_not_the_jobs_fault() -> None:
    kind = (("preempted",), TaskState.LOST, Reason.PREEMPTED)
    assert _decide(*kind, lost=CRASH_LIMIT - 1) == Again(0.5, attempt=1, lost=CRASH_LIMIT - 1)
    assert _decide(*kind, began=False) == Again(0.0, attempt=0, lost=0)


def test_an_envelope_that_is_gone_is_not_waited_for() -> None:
    assert isinstance(_decide(("worker_lost",), TaskState.LOST, Reason.ENVELOPE_LOST), Over)
    lost = _decide(("worker_lost",), TaskState.LOST, Reason.ENVELOPE_LOST, began=False)
    assert isinstance(lost, Over)


@pytest.mark.parametrize("began", [True, False])
def test_the_crash_limit_stops_a_poison_task(began: bool) -> None:
    kind = (("worker_lost",), TaskState.LOST, Reason.WORKER_LOST)
    before = _decide(*kind, began=began, max_attempts=99, lost=CRASH_LIMIT - 2)
    assert isinstance(before, Again)
    at = _decide(*kind, began=began, max_attempts=99, lost=CRASH_LIMIT - 1)
    assert isinstance(at, Over)
    assert at.reason is Reason.CRASH_LIMIT


def test_backoff_doubles_up_to_its_cap_with_full_jitter() -> None:
    assert [backoff(step, 1.0) for step in range(6)] == [0, 1, 2, 4, 8, 16]
    assert backoff(60, 1.0) == BACKOFF_CAP_SECONDS
    assert backoff(4, 0.25) == 2.0
    assert backoff(10_000, 0.0) == 0.0
