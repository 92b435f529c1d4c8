"""A crowd of small jobs: some are always on their way to a worker that has no room for them yet."""

from __future__ import annotations

import pytest

from tests.simulation.planted_ahead import BUGS_AHEAD
from tests.simulation.seams import Bug
from tests.simulation.world import Parts, run

SEEDS = 40
BATCH = 10


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_job_of_a_crowd_ends_and_no_invariant_breaks(first: int) -> None:
    outcomes = [run(seed, Parts(crowded=True)) for seed in range(first, first + BATCH)]
    assert not [outcome.broken for outcome in outcomes if outcome.broken is not None]


@pytest.mark.parametrize("bug", BUGS_AHEAD, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: Bug) -> None:
    for seed in range(SEEDS):
        if run(seed, bug.parts).broken is not None:
            assert run(seed, bug.without).broken is None, "it is not what was planted"
            return
    pytest.fail(f"'{bug.name}' survived {SEEDS} seeds")
