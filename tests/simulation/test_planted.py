"""The simulator finds what it is there to find: faults that were put in on purpose."""

from __future__ import annotations

import pytest

from tests.simulation.planted import BUGS
from tests.simulation.planted_afar import BUGS_AFAR
from tests.simulation.planted_checkpoints import BUGS_OF_CHECKPOINTS
from tests.simulation.planted_runs import BUGS_OF_RUNS
from tests.simulation.seams import Bug
from tests.simulation.world import run

SEEDS = 120


ALL = (*BUGS, *BUGS_AFAR, *BUGS_OF_CHECKPOINTS, *BUGS_OF_RUNS)


@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(bug: Bug) -> None:
    for seed in range(SEEDS):
        if run(seed, bug.parts).broken is not None:
            assert run(seed, bug.without).broken is None, "it is not what was planted"
            return
    pytest.fail(f"'{bug.name}' survived {SEEDS} seeds")


def test_enough_bugs_of_both_sides_are_planted() -> None:
    assert len(BUGS) >= 12
    assert len(BUGS_AFAR) >= 10
    names = [bug.name for bug in ALL]
    assert len(set(names)) == len(names)
