"""Decisions in words."""

from __future__ import annotations

import pytest

from gpulayer.contracts.decision import Decision, Fit, Shape, WorkerView
from gpulayer.control_plane.scheduler.explain import full_table, rows
from gpulayer.control_plane.scheduler.place import place
from gpulayer.control_plane.scheduler.shapes import shape_id
from tests.support.builders import a_shape, a_snapshot, a_worker, holding

FAIL = {"fail_if_unschedulable": True}
FULL = [holding(8.0)]
PLAIN = a_worker("lab-1")


def decide(shape: Shape, *workers: WorkerView, **limits: int) -> Decision:
    (decision,) = place(a_snapshot([(shape, FAIL)], workers, **limits))
    return decision


@pytest.mark.parametrize(
    ("shape", "workers", "summary"),
    [
        (a_shape(), [], "no worker is registered yet"),
        (a_shape(), [PLAIN], "placed on lab-1"),
        (a_shape(1), [a_worker(gpus=1)], "placed on lab-1 with 1 GPU"),
        (a_shape(2, nodes=2), [a_worker("a", 2), a_worker("b", 2)],
         "placed on a, b with 2 GPUs each"),
        (a_shape(nodes=5), [a_worker(n) for n in "abcde"], "placed on 5 workers: a, b, c, d, ..."),
        (a_shape(), [a_worker(allocations=FULL)], "waits: lab-1 needs 1 free core, has 0 of 8"),
        (a_shape(), [a_worker(n, allocations=FULL) for n in "abc"],
         "waits: 3 workers are busy; a needs 1 free core, has 0 of 8"),
        (a_shape(1), [a_worker(gpus=None)],
         "waits to learn more: lab-1 needs 1 GPU, has not finished looking for GPUs"),
        (a_shape(cpu_cores=64.0), [PLAIN], "lab-1 needs 64 cores, has 8 in all"),
        (a_shape(cpu_cores=64.0), [PLAIN, a_worker("lab-2", cpu_cores=32.0)],
         "no worker can run it; closest: lab-2 needs 64 cores, has 32 in all"),
        (a_shape(nodes=2, distinct=True), [PLAIN, a_worker("lab-2", allocations=FULL)],
         "needs 2 workers at once, 1 can take part now; lab-2 needs 1 free core, has 0 of 8"),
        (a_shape(nodes=9), [PLAIN, a_worker("lab-2", allocations=FULL)],
         "needs room for 9 nodes at once, 1 worker can take part now; "  # noqa: ISC004
         "lab-2 needs 1 free core, has 0 of 8"),
        (a_shape(nodes=3), [PLAIN, a_worker("lab-2", allocations=FULL)],
         "placed on lab-1 (3 nodes)"),
    ],
)  # fmt: skip
def test_the_summary_says_what_happened_or_what_is_missing(
    shape: Shape, workers: list[WorkerView], summary: str
) -> None:
    assert decide(shape, *workers).summary == summary


def test_a_job_that_waits_for_a_better_worker_says_so() -> None:
    (decision,) = place(a_snapshot([a_shape(cpu_cores=64.0)], [PLAIN]))
    assert decision.summary == "lab-1 needs 64 cores, has 8 in all; waits for one that can"


def test_the_closest_worker_is_told_first() -> None:
    workers = [
        a_worker("far", 1, "t4"),
        a_worker("near", 1, "rtx4090"),
        a_worker("unlooked", None),
        a_worker("none", 0),
    ]
    decision = decide(a_shape(1, gpu_memory_gb=40.0), *workers)
    assert [row.worker for row in rows(decision)] == ["unlooked", "near", "far", "none"]


def test_the_chosen_worker_is_the_first_row() -> None:
    decision = decide(a_shape(), a_worker("a", allocations=[holding(1.0)]), a_worker("b"))
    assert rows(decision) == [("b", Fit.YES, "chosen"), ("a", Fit.YES, "can run it")]


def test_a_row_tells_up_to_three_reasons() -> None:
    shape = a_shape(cpu_cores=64.0, memory_gb=64.0, disk_gb=999.0, os=("macos",))
    (row,) = rows(decide(shape, PLAIN))
    assert row.reason == (
        "needs macos, has linux; needs 64 cores, has 8 in all;"
        " needs 64 GB of memory, has 32 GB in all; and 1 more"
    )


def test_a_large_fleet_is_told_in_groups_with_counts_and_examples() -> None:
    small = [a_worker(f"small-{i}") for i in range(6)]
    macs = [a_worker(f"mac-{i}", os="macos") for i in range(2)]
    decision = decide(a_shape(cpu_cores=16.0, os=("linux",)), *small, *macs, detail=4)
    told = {v.worker_id: (v.count, v.examples) for v in decision.verdicts}
    assert told == {
        "small-0": (6, ("small-1", "small-2", "small-3")),
        "mac-0": (2, ("mac-1",)),
    }
    assert rows(decision)[0].worker == "small-0 and 5 more"


def test_the_full_table_has_every_worker_of_a_large_fleet() -> None:
    shape = a_shape(cpu_cores=16.0)
    snapshot = a_snapshot([shape], [a_worker(f"w{i}") for i in range(9)], detail=4)
    assert [v.worker_id for v in full_table(snapshot, shape_id(shape))] == [
        f"w{i}" for i in range(9)
    ]


def test_of_a_large_fleet_a_placed_job_names_only_its_own_workers() -> None:
    decision = decide(a_shape(), *(a_worker(f"w{i}") for i in range(9)), detail=4)
    assert [v.worker_id for v in decision.verdicts] == ["w0"]
