"""Arrays among the faults: planes and workers die, words are lost, and each element ends once."""

from __future__ import annotations

import pytest

from tests.simulation.world import Parts, run

SEEDS = 40
BATCH = 10


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_array_ends_and_no_invariant_breaks(first: int) -> None:
    outcomes = [run(seed, Parts(arrays=True)) for seed in range(first, first + BATCH)]
    assert not [outcome.broken for outcome in outcomes if outcome.broken is not None]
