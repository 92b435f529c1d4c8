"""What a pass costs, counted in calls and not timed."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from gpulayer.contracts.decision import Outcome, Shape, Snapshot, WorkerView
from gpulayer.control_plane.scheduler.place import place
from tests.support.builders import a_shape, a_snapshot, a_worker

SHAPES = [
    a_shape(gpus=gpus, cpu_cores=float(cores), memory_gb=float(memory))
    for gpus in (0, 1, 2)
    for cores in (1, 2)
    for memory in (1, 4)
]


def calls_of(snapshot: Snapshot) -> tuple[int, int]:
    """Calls of Python functions that a pass makes, and the jobs that it places."""
    count = 0

    def tell(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(tell)
    try:
        decisions = place(snapshot)
    finally:
        sys.setprofile(None)
    return count, sum(decision.outcome is Outcome.PLACED for decision in decisions)


def fleet(count: int) -> list[WorkerView]:
    return [a_worker(f"w{n:03}", gpus=4, target="remote") for n in range(count)]


def queue(count: int) -> list[Shape]:
    return [SHAPES[n % len(SHAPES)] for n in range(count)]


def test_a_placed_job_costs_a_bounded_number_of_looks() -> None:
    """However many shapes share the workers, and however many jobs were placed before it."""
    few, placed = calls_of(a_snapshot(queue(100), fleet(200)))
    many, more = calls_of(a_snapshot(queue(500), fleet(200)))
    assert (placed, more) == (100, 500)
    assert (many - few) / (more - placed) < 100


def test_jobs_that_wait_cost_next_to_nothing() -> None:
    full = [a_worker(f"w{n:03}", target="remote", cpu_cores=0.5) for n in range(100)]
    few, placed = calls_of(a_snapshot(queue(100), full))
    many, _ = calls_of(a_snapshot(queue(2_100), full))
    assert placed == 0
    assert (many - few) / 2_000 < 3
