"""Runs of elements among the faults: loops, agents, supervisors, machines and planes die in the
middle of one, and each element ends once, or goes out again if it was not told of."""

from __future__ import annotations

import pytest

from tests.simulation.world import Parts, run

SEEDS = 16
BATCH = 4


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_run_ends_and_no_invariant_breaks(first: int) -> None:
    outcomes = [run(seed, Parts(runs=True)) for seed in range(first, first + BATCH)]
    assert not [outcome.broken for outcome in outcomes if outcome.broken is not None]
