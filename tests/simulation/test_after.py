"""Jobs that come after others, among the faults: `laws.check_order` holds at every end, and all of
them end."""

from __future__ import annotations

import pytest

from tests.simulation.world import Parts, run

SEEDS = 12
BATCH = 6


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_job_ends_and_none_begins_too_early(first: int) -> None:
    outcomes = [run(seed, Parts(chained=True)) for seed in range(first, first + BATCH)]
    assert not [outcome.broken for outcome in outcomes if outcome.broken is not None]
