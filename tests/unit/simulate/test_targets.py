"""Ours beside EASY backfill and first come first served, on generated traces of a busy cluster."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gpulayer.simulate.engine import Policy, replay, sized
from gpulayer.simulate.fleet import read_fleet
from gpulayer.simulate.production import Production
from gpulayer.simulate.reference import Reference
from gpulayer.simulate.report import figures
from gpulayer.simulate.trace import TraceJob

SIZES = ((1, 50), (2, 15), (4, 10), (8, 15), (16, 6))
"""GPUs of a job, and how often."""
FLEET = read_fleet("workers: [{count: 4, gpus: 8}]", "f.yaml")
JOBS = 150


def busy(seed: int) -> list[TraceJob]:
    """As much work as the fleet can just do; a few jobs are much longer than most."""
    chance = random.Random(seed)
    sizes, weights = zip(*SIZES, strict=True)
    drawn = [
        (chance.choices(sizes, weights)[0], max(1.0, round(chance.lognormvariate(7, 1.5))))
        for _ in range(JOBS)
    ]
    span = sum(gpus * seconds for gpus, seconds in drawn) / 32
    arrivals = sorted(round(chance.random() * span, 1) for _ in range(JOBS))
    return [
        TraceJob(f"j{n}", at, seconds, gpus, seconds)
        for n, (at, (gpus, seconds)) in enumerate(zip(arrivals, drawn, strict=True))
    ]


def waits(seed: int, policy: Policy) -> dict[str, Any]:
    jobs, _ = sized(busy(seed), FLEET)
    told: dict[str, Any] = figures(jobs, replay(jobs, policy), 32)["classes"]
    assert told["all"]["never_began"] == 0
    return told


@pytest.mark.parametrize("seed", range(6))
def test_jobs_wait_no_longer_than_beside_the_simple_policies(seed: int) -> None:
    ours = waits(seed, Production(FLEET, "first_fit"))
    assert ours["all"]["mean"] <= waits(seed, Reference(FLEET, backfills=True))["all"]["mean"]
    fifo = waits(seed, Reference(FLEET, backfills=False))
    assert ours["8+"]["p99"] <= fifo["8+"]["p99"]
    assert ours["all"]["max"] <= 2 * fifo["all"]["max"], "nobody starves"
