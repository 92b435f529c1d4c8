"""A hundred runs, each with its own mix of faults; all of them keep every invariant and end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.world import Parts, run

SEEDS = 100
BATCH = 10


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_every_accepted_job_ends_and_no_invariant_breaks(first: int) -> None:
    outcomes = [run(seed) for seed in range(first, first + BATCH)]
    broken = [outcome.broken for outcome in outcomes if outcome.broken is not None]
    assert not broken, "\n".join(
        f"{line}\n  replay: python -m tests.simulation --seed {line.split()[1].rstrip(',')} --trace"
        for line in broken
    )


def test_no_checkpoint_of_an_older_attempt_or_moment_replaces_a_newer_one() -> None:
    broken = [run(seed, Parts(saves=True)).broken for seed in range(SEEDS, SEEDS + 5)]
    assert broken == [None] * 5


def test_the_same_seed_is_the_same_run() -> None:
    first, again = run(3), run(3)
    assert (first.digest, first.events) == (again.digest, again.events)
    assert first.digest != run(4).digest


def test_a_run_does_not_hang_on_the_order_of_hashes() -> None:
    """So a seed that fails on one machine replays on another."""
    told = {
        _in_another_process(hash_seed, "--first", "20", "--count", "6") for hash_seed in ("1", "2")
    }
    assert len(told) == 1


def test_a_seed_is_replayed_with_its_trace() -> None:
    told = _in_another_process("0", "--seed", "7", "--trace")
    outcome = run(7, keep_trace=True)
    assert told.splitlines()[:-1] == list(outcome.trace)
    assert outcome.digest[:16] in told.splitlines()[-1]


def _in_another_process(hash_seed: str, *argv: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", *argv],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
