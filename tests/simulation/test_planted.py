"""The simulator finds what it is there to find: faults that were put in on purpose."""

from __future__ import annotations

import pytest

from tests.simulation.planted import BUGS, Bug
from tests.simulation.world import run

SEEDS = 60


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: Bug) -> None:
    for seed in range(SEEDS):
        if run(seed, bug.parts).broken is not None:
            return
    pytest.fail(f"'{bug.name}' survived {SEEDS} seeds")


def test_enough_bugs_of_both_sides_are_planted() -> None:
    assert len(BUGS) >= 10
    assert len({bug.name for bug in BUGS}) == len(BUGS)
