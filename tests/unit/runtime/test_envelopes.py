"""How long a terminal's world is kept for the jobs that need it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulayer.runtime.envelopes import MOMENT_SECONDS, Envelopes
from tests.support.clocks import FakeClock

WORLD = {"environ": ["A=1"], "cwd": "/"}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def envelopes(tmp_path: Path, clock: FakeClock) -> Envelopes:
    return Envelopes(str(tmp_path), clock.monotonic)


def test_one_that_no_job_needs_goes_with_its_file(
    envelopes: Envelopes, clock: FakeClock, tmp_path: Path
) -> None:
    envelope_id = envelopes.put(WORLD, keep=True)
    assert (tmp_path / envelope_id).stat().st_mode & 0o777 == 0o600
    clock.advance(MOMENT_SECONDS)
    envelopes.drop(envelope_id)
    assert envelopes.get(envelope_id) is None
    assert list(tmp_path.iterdir()) == []


def test_a_word_of_the_plane_that_crosses_a_submission_is_passed_over(
    envelopes: Envelopes,
) -> None:
    envelope_id = envelopes.put(WORLD, keep=False)
    envelopes.drop(envelope_id)
    assert envelopes.get(envelope_id) == WORLD


def test_it_stays_as_long_as_its_givers_are_there(envelopes: Envelopes, clock: FakeClock) -> None:
    one, other = object(), object()
    envelope_id = envelopes.put(WORLD, keep=False, giver=one)
    envelopes.put(WORLD, keep=False, giver=other)
    clock.advance(MOMENT_SECONDS)
    envelopes.drop(envelope_id)
    envelopes.giver_left(one)
    assert envelopes.get(envelope_id) == WORLD
    envelopes.giver_left(other)
    assert envelopes.get(envelope_id) is None


def test_a_job_that_waits_keeps_it_after_its_giver_has_left(
    envelopes: Envelopes, clock: FakeClock
) -> None:
    giver = object()
    envelope_id = envelopes.put(WORLD, keep=False, giver=giver)
    clock.advance(MOMENT_SECONDS)
    envelopes.drop(envelope_id)  # no job so far
    assert envelopes.put_again(envelope_id, giver)
    envelopes.giver_left(giver)
    assert envelopes.get(envelope_id) == WORLD


def test_one_that_is_lost_must_be_given_whole(envelopes: Envelopes) -> None:
    assert not envelopes.put_again("0" * 64, object())
    assert not envelopes.put_again("../etc/passwd", object())
