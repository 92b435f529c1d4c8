"""What holds for every fleet and every queue."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings, strategies as st

from gpulayer.contracts.decision import Decision, Fit, Outcome, Snapshot
from gpulayer.control_plane.scheduler.explain import full_table
from gpulayer.control_plane.scheduler.place import place
from gpulayer.control_plane.scheduler.replay import (
    as_seen,
    decision_to_json,
    record,
    recorded,
    replay,
)
from gpulayer.control_plane.scheduler.shapes import canonical
from tests.support.fleets import snapshots

FEW = settings(max_examples=80, deadline=None)


def text(decisions: tuple[Decision, ...]) -> str:
    return canonical([decision_to_json(decision) for decision in decisions])


def order(snapshot: Snapshot) -> dict[str, tuple[int, int]]:
    return {p.job_id: (-p.priority, p.seq) for p in snapshot.queue}


@FEW
@given(snapshots())
def test_no_device_is_given_twice(snapshot: Snapshot) -> None:
    held = [uuid for w in snapshot.workers for a in w.allocations for uuid in a.gpus]
    given_now = [uuid for d in place(snapshot) for p in d.placements for uuid in p.gpus]
    assert max(Counter(held + given_now).values(), default=1) == 1


@FEW
@given(snapshots())
def test_each_task_gets_exactly_what_it_asked_for_where_it_is(snapshot: Snapshot) -> None:
    there = {w.worker_id: {g.uuid for g in w.capabilities.gpus or ()} for w in snapshot.workers}
    for decision in place(snapshot):
        shape = snapshot.shapes[decision.shape_id]
        for placement in decision.placements:
            assert len(placement.gpus) == shape.gpus
            assert set(placement.gpus) <= there[placement.worker_id]
            assert placement.cpu_cores == shape.cpu_cores
            assert placement.memory_gb == (shape.memory_gb or 0.0)


@FEW
@given(snapshots())
def test_no_worker_is_given_more_than_it_has(snapshot: Snapshot) -> None:
    placements = [p for d in place(snapshot) for p in d.placements]
    for view in snapshot.workers:
        all_of_it = [p for p in placements if p.worker_id == view.worker_id]
        mine = [p for p in all_of_it if not p.ahead]
        tasks = len(view.allocations) + len(mine)
        assert len(all_of_it) == len(mine) or len(all_of_it) - len(mine) + len(view.sent) <= (
            view.ahead * tasks
        )
        if not mine:
            continue
        held = [*view.allocations, *mine]
        facts = view.capabilities
        assert sum(h.cpu_cores for h in held) <= facts.cpu_cores + 1e-9
        if facts.memory_gb is not None and any(p.memory_gb for p in mine):
            assert sum(h.memory_gb for h in held) <= facts.memory_gb + 1e-9


@FEW
@given(snapshots())
def test_a_gang_is_placed_whole_on_workers_of_one_target(snapshot: Snapshot) -> None:
    target = {w.worker_id: w.target for w in snapshot.workers}
    for decision in place(snapshot):
        if decision.outcome is not Outcome.PLACED:
            assert decision.placements == ()
            continue
        chosen = [p.worker_id for p in decision.placements]
        shape = snapshot.shapes[decision.shape_id]
        assert len(chosen) == shape.nodes
        assert len(set(chosen)) == shape.nodes or not shape.distinct
        assert [p.rank for p in decision.placements] == list(range(len(chosen)))
        assert len({target[worker] for worker in chosen}) == 1


@FEW
@given(snapshots())
def test_a_placed_job_never_leaves_an_equal_one_waiting_that_comes_before_it(
    snapshot: Snapshot,
) -> None:
    before = order(snapshot)
    placed = {d.job_id for d in place(snapshot) if d.outcome is Outcome.PLACED}
    for job in snapshot.queue:
        for other in snapshot.queue:
            if other.shape_id == job.shape_id and before[other.job_id] < before[job.job_id]:
                assert job.job_id not in placed or other.job_id in placed


@FEW
@given(snapshots())
def test_what_waits_could_not_have_been_placed_after_the_pass(snapshot: Snapshot) -> None:
    now = {k: v for k, v in snapshot.limits.items() if k == "now"}
    whole = replace(snapshot, limits=now)
    decisions = place(whole)
    placed = {d.job_id for d in decisions if d.outcome is Outcome.PLACED}
    *_, (_, seen) = [(None, whole), *as_seen(whole, decisions)]
    rest = tuple(p for p in snapshot.queue if p.job_id not in placed)
    if decisions and decisions[-1].outcome is not Outcome.PLACED:
        again = place(Snapshot(snapshot.shapes, rest, seen.workers, now))
        assert all(d.outcome is not Outcome.PLACED for d in again)


@FEW
@given(snapshots())
def test_each_job_is_decided_at_most_once_and_each_shape_waits_once(snapshot: Snapshot) -> None:
    decisions = place(snapshot)
    waiting = [d.shape_id for d in decisions if d.outcome is Outcome.WAITING]
    assert max(Counter(d.job_id for d in decisions).values(), default=1) == 1
    assert max(Counter(waiting).values(), default=1) == 1
    if "max_placements" not in snapshot.limits:
        told = {d.shape_id for d in decisions}
        assert told == {p.shape_id for p in snapshot.queue}


@FEW
@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_queue_and_workers_does_not_matter(snapshot: Snapshot, chance: Any) -> None:
    queue, workers = list(snapshot.queue), list(snapshot.workers)
    chance.shuffle(queue)
    chance.shuffle(workers)
    shapes = dict(sorted(snapshot.shapes.items(), reverse=True))
    mixed = Snapshot(shapes, tuple(queue), tuple(workers), snapshot.limits)
    assert text(place(mixed)) == text(place(snapshot)) == text(place(snapshot))


@FEW
@given(snapshots())
def test_every_stored_decision_replays_to_the_same_bytes(snapshot: Snapshot) -> None:
    for decision, seen in as_seen(snapshot, place(snapshot)):
        stored = json.loads(canonical(record(decision, seen)))
        assert text((replay(stored),)) == text((recorded(stored),)) == text((decision,))


@FEW
@given(snapshots())
def test_only_a_hopeless_job_fails(snapshot: Snapshot) -> None:
    for decision in place(snapshot):
        if decision.outcome is not Outcome.UNSCHEDULABLE:
            continue
        shape = snapshot.shapes[decision.shape_id]
        table = full_table(snapshot, decision.shape_id)
        target = {w.worker_id: w.target for w in snapshot.workers}
        able = Counter(target[v.worker_id] for v in table if v.fit is not Fit.NEVER)
        if shape.distinct or shape.nodes == 1:
            assert max(able.values(), default=0) < shape.nodes
        alone = [p for p in snapshot.queue if p.job_id == decision.job_id]
        free = tuple(replace(worker, allocations=()) for worker in snapshot.workers)
        (again,) = place(Snapshot(snapshot.shapes, tuple(alone), free))
        assert again.outcome is Outcome.UNSCHEDULABLE
        assert snapshot.workers


@FEW
@given(snapshots())
def test_groups_of_a_large_fleet_count_every_worker_once(snapshot: Snapshot) -> None:
    grouped = place(replace(snapshot, limits={"detail": 0}))
    for decision in grouped:
        if decision.outcome is Outcome.PLACED:
            continue
        assert sum(v.count for v in decision.verdicts) == len(snapshot.workers)
