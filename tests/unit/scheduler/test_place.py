"""One pass: who goes where."""

from __future__ import annotations

import pytest

from gpulayer.contracts.decision import Decision, Outcome, Shape, Snapshot, WorkerView
from gpulayer.control_plane.scheduler.place import place
from tests.support.builders import a_shape, a_snapshot, a_worker, gpus_of, holding

FAIL = {"fail_if_unschedulable": True}


def where(snapshot: Snapshot) -> dict[str, list[str]]:
    """Job -> workers, of the placed ones."""
    return {d.job_id: [p.worker_id for p in d.placements] for d in placed(place(snapshot))}


def placed(decisions: tuple[Decision, ...]) -> list[Decision]:
    return [d for d in decisions if d.outcome is Outcome.PLACED]


def only(shape: Shape, *workers: WorkerView) -> str | None:
    """Where a single job goes."""
    return next(iter(where(a_snapshot([shape], workers)).values()), [None])[0]


def test_an_empty_queue_decides_nothing() -> None:
    assert place(a_snapshot([], [a_worker()])) == ()


def test_several_jobs_share_a_worker_until_its_cores_are_used() -> None:
    snapshot = a_snapshot([a_shape(cpu_cores=3.0)] * 3, [a_worker(cpu_cores=8.0)])
    assert where(snapshot) == {"job-0": ["lab-1"], "job-1": ["lab-1"]}


def test_memory_is_packed_too() -> None:
    snapshot = a_snapshot([a_shape(memory_gb=20.0)] * 2, [a_worker(memory_gb=32.0)])
    assert list(where(snapshot)) == ["job-0"]


def test_each_job_has_devices_of_its_own() -> None:
    decisions = placed(place(a_snapshot([a_shape(2)] * 3, [a_worker(gpus=4)])))
    given = [uuid for d in decisions for p in d.placements for uuid in p.gpus]
    assert len(decisions) == 2
    assert sorted(given) == [f"GPU-lab-1-{i}" for i in range(4)]


def test_devices_that_a_running_task_holds_are_not_given_again() -> None:
    worker = a_worker(gpus=2, allocations=[holding(gpus=["GPU-lab-1-0"])])
    (decision,) = place(a_snapshot([a_shape(1)], [worker]))
    assert decision.placements[0].gpus == ("GPU-lab-1-1",)


def test_a_job_without_gpus_is_given_none() -> None:
    (decision,) = place(a_snapshot([a_shape()], [a_worker(gpus=4)]))
    assert decision.placements[0].gpus == ()


def test_priority_comes_before_age_and_age_before_the_rest() -> None:
    whole = a_shape(cpu_cores=8.0)
    jobs = [(whole, {"priority": 0}), (whole, {"priority": 5}), (whole, {"priority": 5})]
    assert where(a_snapshot(jobs, [a_worker()])) == {"job-1": ["lab-1"]}


def test_a_shape_that_waits_blocks_only_itself() -> None:
    jobs = [(a_shape(8), {"priority": 9}), a_shape(1), (a_shape(8), {"priority": 9})]
    decisions = place(a_snapshot(jobs, [a_worker(gpus=2)]))
    assert [(d.job_id, d.outcome) for d in decisions] == [
        ("job-0", Outcome.WAITING),
        ("job-1", Outcome.PLACED),
    ]


def test_no_more_jobs_are_placed_than_allowed() -> None:
    snapshot = a_snapshot([a_shape()] * 5, [a_worker()], max_placements=2)
    assert list(where(snapshot)) == ["job-0", "job-1"]


@pytest.mark.parametrize(
    ("targets", "expected"),
    [(("local",), "here"), (("remote", "local"), "there"), (("cloud", "local"), "here")],
)
def test_targets_are_tried_in_order(targets: tuple[str, ...], expected: str) -> None:
    workers = [a_worker("here"), a_worker("there", target="remote")]
    assert only(a_shape(targets=targets), *workers) == expected


def test_the_next_target_is_used_when_the_first_is_busy() -> None:
    full = a_worker("there", target="remote", allocations=[holding(8.0)])
    assert only(a_shape(targets=("remote", "local")), full, a_worker("here")) == "here"


def test_spread_takes_the_least_loaded_worker() -> None:
    loaded = a_worker("a", allocations=[holding(4.0)])
    assert only(a_shape(strategy="spread"), loaded, a_worker("b")) == "b"


def test_spread_deals_jobs_out_in_turn() -> None:
    workers = [a_worker(name) for name in "abc"]
    taken = where(a_snapshot([a_shape()] * 6, workers))
    assert [w for (w,) in taken.values()] == ["a", "b", "c", "a", "b", "c"]


def test_first_fit_fills_the_lowest_id() -> None:
    shape = a_shape(cpu_cores=4.0, strategy="first_fit")
    workers = [a_worker("b"), a_worker("a", allocations=[holding(2.0)])]
    assert [w for (w,) in where(a_snapshot([shape] * 3, workers)).values()] == ["a", "b", "b"]


def test_most_free_memory_looks_at_devices_for_gpu_jobs() -> None:
    small, large = a_worker("a", 2, "rtx4090", memory_gb=512.0), a_worker("b", 1, "a100")
    assert only(a_shape(1, strategy="most_free_memory"), small, large) == "b"
    assert only(a_shape(strategy="most_free_memory"), small, large) == "a"


def test_among_equals_linked_devices_are_preferred() -> None:
    apart = tuple(d for i in range(2) for d in gpus_of(f"a{i}", 1, link_group=i, numa_node=i))
    joined = gpus_of("b", 2, link_group=0)
    assert only(a_shape(2), a_worker("a", apart), a_worker("b", joined)) == "b"


def test_among_equals_the_fewest_devices_are_left_over() -> None:
    assert only(a_shape(2), a_worker("a", 8), a_worker("b", 2)) == "b"


def test_a_gang_has_all_its_workers_or_none() -> None:
    gang = a_shape(nodes=2, cpu_cores=8.0)
    busy = a_worker("b", allocations=[holding(1.0)])
    assert where(a_snapshot([gang], [a_worker("a"), busy])) == {}
    assert where(a_snapshot([gang], [a_worker("a"), a_worker("b")])) == {"job-0": ["a", "b"]}


def test_a_gang_that_waits_holds_nothing() -> None:
    workers = [a_worker("a"), a_worker("b", allocations=[holding(1.0)])]
    jobs = [(a_shape(nodes=2, cpu_cores=8.0), {"priority": 1}), a_shape(cpu_cores=8.0)]
    assert where(a_snapshot(jobs, workers)) == {"job-1": ["a"]}


def test_a_gang_is_not_split_over_targets() -> None:
    workers = [a_worker("a"), a_worker("b", target="remote"), a_worker("c", target="remote")]
    gang = a_shape(nodes=2, targets=("local", "remote"), distinct=True)
    assert where(a_snapshot([gang], workers)) == {"job-0": ["b", "c"]}
    wide = a_shape(nodes=2, targets=("local", "remote"), cpu_cores=5.0)
    assert where(a_snapshot([wide], workers)) == {"job-0": ["b", "c"]}


def test_nodes_of_a_gang_share_a_worker_only_where_there_are_too_few() -> None:
    gang = a_shape(nodes=3, cpu_cores=2.0)
    assert where(a_snapshot([gang], [a_worker(n) for n in "abc"])) == {"job-0": ["a", "b", "c"]}
    assert where(a_snapshot([gang], [a_worker("a"), a_worker("b")])) == {"job-0": ["a", "a", "a"]}
    busy = a_worker("a", allocations=[holding(5.0)])
    assert where(a_snapshot([gang], [busy, a_worker("b")])) == {"job-0": ["b", "b", "b"]}
    assert where(a_snapshot([gang], [busy])) == {}
    apart = a_shape(nodes=3, cpu_cores=2.0, distinct=True)
    assert where(a_snapshot([apart], [a_worker("a"), a_worker("b")])) == {}


def test_nodes_that_share_a_worker_have_devices_of_their_own() -> None:
    (decision,) = place(a_snapshot([a_shape(2, nodes=2)], [a_worker("a", 4)]))
    devices = [uuid for p in decision.placements for uuid in p.gpus]
    assert len(devices) == len(set(devices)) == 4
    assert where(a_snapshot([a_shape(2, nodes=2)], [a_worker("a", 3)])) == {}


def test_ranks_are_numbered_from_nought() -> None:
    (decision,) = place(a_snapshot([a_shape(nodes=3)], [a_worker(n) for n in "abc"]))
    assert [p.rank for p in decision.placements] == [0, 1, 2]


def test_a_job_that_asked_to_fail_fails_when_no_worker_could_ever_run_it() -> None:
    huge = a_shape(cpu_cores=64.0)
    decisions = place(a_snapshot([huge, (huge, FAIL), huge, (huge, FAIL)], [a_worker()]))
    assert [(d.job_id, d.outcome) for d in decisions] == [
        ("job-0", Outcome.WAITING),
        ("job-1", Outcome.UNSCHEDULABLE),
        ("job-3", Outcome.UNSCHEDULABLE),
    ]


def test_a_gang_of_more_workers_than_there_are_fails_if_asked_to() -> None:
    workers = [a_worker("a"), a_worker("b")]
    (decision,) = place(a_snapshot([(a_shape(nodes=3, distinct=True), FAIL)], workers))
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.summary == "needs 3 workers at once, 2 could ever take part"
    (decision,) = place(a_snapshot([(a_shape(nodes=17), FAIL)], workers))
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.summary == "needs room for 17 nodes at once, 2 workers could ever take part"
    full = [a_worker(n, allocations=[holding(8.0)]) for n in "ab"]
    (decision,) = place(a_snapshot([(a_shape(nodes=16), FAIL)], full))
    assert decision.outcome is Outcome.WAITING


@pytest.mark.parametrize(
    "worker",
    [
        a_worker(allocations=[holding(8.0)]),
        a_worker(offline=True),
        a_worker(draining=True),
    ],
)
def test_a_job_that_may_run_later_never_fails(worker: WorkerView) -> None:
    (decision,) = place(a_snapshot([(a_shape(), FAIL)], [worker]))
    assert decision.outcome is Outcome.WAITING


def test_nothing_fails_while_workers_may_still_come() -> None:
    huge = a_shape(cpu_cores=64.0)
    (none,) = place(a_snapshot([(huge, FAIL)], []))
    (early,) = place(a_snapshot([(huge, FAIL)], [a_worker()], fleet_settled=False))
    assert {none.outcome, early.outcome} == {Outcome.WAITING}
