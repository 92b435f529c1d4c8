"""Whatever ends an attempt: how often a job runs, when it goes again, and that it stops."""

from __future__ import annotations

from hypothesis import given, strategies as st

from gpulayer.contracts.states import JobState, Reason, TaskState
from gpulayer.control_plane.lifecycle.retry import (
    BACKOFF_CAP_SECONDS,
    CRASH_LIMIT,
    Again,
    Over,
    decide,
)
from tests.unit.lifecycle.records import a_job, a_task

CAUSES = ("worker_lost", "failed", "timed_out", "preempted", "exit:3", "exit:4")
PLANNED = (Reason.RETRACTED, Reason.PREEMPTED)

ENDS = st.one_of(
    st.tuples(st.just(TaskState.FAILED), st.just(Reason.EXITED), st.integers(1, 5)),
    st.tuples(st.just(TaskState.FAILED), st.just(Reason.PREPARATION), st.just(126)),
    st.tuples(st.just(TaskState.TIMED_OUT), st.just(Reason.TIMEOUT), st.none()),
    st.tuples(
        st.just(TaskState.LOST),
        st.sampled_from((Reason.WORKER_LOST, Reason.SUPERVISOR_LOST, *PLANNED)),
        st.none(),
    ),
)


def asked_for(end: tuple[TaskState, Reason, int | None], retry_on: frozenset[str]) -> bool:
    """The contract, written down a second time."""
    outcome, reason, code = end
    if outcome is TaskState.LOST:
        word = "preempted" if reason is Reason.PREEMPTED else "worker_lost"
        return word in retry_on
    if outcome is TaskState.TIMED_OUT:
        return "timed_out" in retry_on
    return "failed" in retry_on or f"exit:{code}" in retry_on


@given(
    st.frozensets(st.sampled_from(CAUSES)),
    st.integers(1, 8),
    st.lists(st.tuples(ENDS, st.booleans(), st.floats(0, 1, exclude_max=True)), max_size=40),
)
def test_attempts_losses_and_delays_are_bounded(
    retry_on: frozenset[str],
    most: int,
    ends: list[tuple[tuple[TaskState, Reason, int | None], bool, float]],
) -> None:
    used = lost = begun = vanished = 0
    for end, began, jitter in ends:
        outcome, reason, code = end
        began = began or outcome is TaskState.TIMED_OUT
        job = a_job(
            JobState.RUNNING,
            retry_on=tuple(retry_on),
            max_attempts=most,
            attempt=used + 1,
            lost=lost,
        )
        verdict = decide(job, a_task(), outcome, reason, code, began=began, jitter=jitter)
        is_lost = outcome is TaskState.LOST
        begun += began
        vanished += is_lost and reason not in PLANNED
        assert verdict.lost == vanished
        free = is_lost and not began and reason is not Reason.SUPERVISOR_LOST
        if isinstance(verdict, Over):
            is_poison = verdict.reason is Reason.CRASH_LIMIT
            assert is_poison == (vanished >= CRASH_LIMIT and (free or _has_more(job, end)))
            assert is_poison or not (free or _has_more(job, end))
            return
        assert vanished < CRASH_LIMIT
        assert 0.0 <= verdict.delay <= BACKOFF_CAP_SECONDS
        assert verdict.attempt == (used if free else used + 1) < most
        used, lost = verdict.attempt, verdict.lost
        assert begun <= most


def _has_more(job: object, end: tuple[TaskState, Reason, int | None]) -> bool:
    attempt, most = job.attempt, job.max_attempts  # type: ignore[attr-defined]
    return attempt < most and asked_for(end, frozenset(job.retry_on))  # type: ignore[attr-defined]


@given(st.integers(1, 60), st.floats(0, 1, exclude_max=True))
def test_the_wait_grows_with_the_attempt_and_never_past_its_cap(step: int, jitter: float) -> None:
    def delay(attempt: int) -> float:
        job = a_job(JobState.RUNNING, retry_on=("failed",), max_attempts=99, attempt=attempt)
        verdict = decide(
            job, a_task(), TaskState.FAILED, Reason.EXITED, 1, began=True, jitter=jitter
        )
        assert isinstance(verdict, Again)
        return verdict.delay

    assert delay(step) <= delay(step + 1) <= BACKOFF_CAP_SECONDS
