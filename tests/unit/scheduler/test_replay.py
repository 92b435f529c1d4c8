"""Decisions that can be made again from what was stored."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from gpulayer.contracts.decision import Snapshot
from gpulayer.control_plane.scheduler.place import place
from gpulayer.control_plane.scheduler.replay import (
    as_seen,
    decision_from_json,
    decision_to_json,
    record,
    recorded,
    replay,
    snapshot_from_json,
    snapshot_to_json,
)
from gpulayer.control_plane.scheduler.shapes import canonical
from tests.support.builders import a_shape, a_snapshot, a_worker, gpus_of, holding

BUSY_DAY = a_snapshot(
    [
        a_shape(2, gpu_memory_gb=40.0),
        a_shape(nodes=2, cpu_cores=3.0, strategy="first_fit"),
        a_shape(2, gpu_memory_gb=40.0),
        a_shape(python=">=3.10", frameworks=(("torch", ">=2"),), labels=(("pool", "a"),)),
        (a_shape(cpu_cores=64.0), {"fail_if_unschedulable": True}),
        a_shape(4, visible_gpus=("0", "1")),
    ],
    [
        a_worker("lab-1", gpus_of("lab-1", 4, link_group=0), labels={"pool": "a"}),
        a_worker("lab-2", 2, "rtx4090", allocations=[holding(2.0, ["GPU-lab-2-0"])]),
        a_worker("new", None, interpreters=()),
    ],
    max_placements=50,
)


def test_every_decision_of_a_pass_can_be_made_again_alone() -> None:
    decisions = place(BUSY_DAY)
    for decision, seen in as_seen(BUSY_DAY, decisions):
        stored = json.loads(canonical(record(decision, seen)))
        assert canonical(decision_to_json(replay(stored))) == canonical(stored["decision"])
        assert recorded(stored) == decision
    assert len(decisions) == 6


def test_a_record_holds_one_job_and_what_earlier_ones_took() -> None:
    *_, (last, seen) = as_seen(BUSY_DAY, place(BUSY_DAY))
    assert [p.job_id for p in seen.queue] == [last.job_id]
    assert sum(len(w.allocations) for w in seen.workers) > 1


def test_a_snapshot_survives_json_whatever_its_order() -> None:
    mixed = replace(BUSY_DAY, queue=BUSY_DAY.queue[::-1], workers=BUSY_DAY.workers[::-1])
    text = canonical(snapshot_to_json(BUSY_DAY))
    assert canonical(snapshot_to_json(mixed)) == text
    again: Snapshot = snapshot_from_json(json.loads(text))
    assert canonical(snapshot_to_json(again)) == text


def test_a_record_may_hold_the_snapshot_field_by_field() -> None:
    for decision, seen in as_seen(BUSY_DAY, place(BUSY_DAY)):
        stored = json.loads(json.dumps({"snapshot": asdict(seen)}))
        assert replay(stored) == decision


def test_what_a_newer_version_adds_is_ignored() -> None:
    (first, *_) = place(BUSY_DAY)
    data = json.loads(canonical(decision_to_json(first)))
    data["of_a_newer_version"] = data["verdicts"][0]["of_a_newer_version"] = 1
    assert decision_from_json(data) == first
