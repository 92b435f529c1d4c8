"""What is sent along before there is room, and what is asked back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpulayer.contracts.decision import Decision, Outcome, Sent, Snapshot, WorkerView
from gpulayer.contracts.ids import WorkerId
from gpulayer.control_plane.scheduler.ahead import EACH, depth, to_begin, with_begun
from gpulayer.control_plane.scheduler.place import Pass, place
from gpulayer.control_plane.scheduler.replay import as_seen, record, recorded, replay
from tests.support.builders import a_shape, a_snapshot, a_worker, holding


def busy(
    worker_id: str = "lab-1", *, cores: float = 2.0, ahead: int = 2, **facts: Any
) -> WorkerView:
    """All its cores are held by tasks of one core each."""
    held = [holding() for _ in range(int(cores))]
    view = a_worker(worker_id, cpu_cores=cores, allocations=held, **facts)
    return replace(view, ahead=ahead)


def ahead(decisions: tuple[Decision, ...]) -> list[str]:
    return [p.worker_id for d in decisions for p in d.placements if p.ahead]


def sent(snapshot: Snapshot, worker_id: str, number: int = 0, **facts: Any) -> Sent:
    (shape_id, shape), *_ = snapshot.shapes.items()
    one = Sent(f"t{number}", f"j{number}", WorkerId(worker_id), shape_id, 0, shape.cpu_cores, 0.0)
    return replace(one, **facts)


def test_a_worker_without_room_is_sent_as_many_as_it_may_have() -> None:
    decisions = place(a_snapshot([a_shape()] * 6, [busy(ahead=2)]))
    assert ahead(decisions) == ["lab-1"] * 4
    assert decisions[0].summary == "placed on lab-1, next in line there"
    assert [d.outcome for d in decisions] == [Outcome.PLACED] * 4 + [Outcome.WAITING]


def test_room_comes_before_being_sent_ahead() -> None:
    free = a_worker("lab-2", cpu_cores=1.0)
    decisions = place(a_snapshot([a_shape()] * 2, [busy(ahead=1), free]))
    assert [(p.worker_id, p.ahead) for d in decisions for p in d.placements] == [
        ("lab-2", False),
        ("lab-1", True),
    ]


def test_nothing_is_sent_where_no_task_of_its_size_runs_or_where_it_could_never_run() -> None:
    for shape in (
        a_shape(cpu_cores=0.5),
        a_shape(cpu_cores=2.0),
        a_shape(1),
        a_shape(os=("mars",)),
    ):
        assert ahead(place(a_snapshot([shape], [busy()]))) == []


def test_a_gang_and_a_worker_that_drains_are_left_alone() -> None:
    assert ahead(place(a_snapshot([a_shape(nodes=2)], [busy(), busy("lab-2")]))) == []
    assert ahead(place(a_snapshot([a_shape()], [replace(busy(), draining=True)]))) == []


def test_nobody_passes_an_earlier_job_that_waits_for_the_same_room() -> None:
    large, small = a_shape(cpu_cores=2.0), a_shape()
    assert ahead(place(a_snapshot([large, small], [busy()]))) == []
    assert ahead(place(a_snapshot([small, large], [busy()]))) == ["lab-1"]


def test_a_job_that_waits_for_something_else_is_in_nobodys_way() -> None:
    waits_for_devices = a_shape(1)
    worker = replace(
        busy(gpus=1),
        allocations=(*busy().allocations, holding(gpus=["GPU-lab-1-0"], cores=0.0)),
    )
    assert ahead(place(a_snapshot([waits_for_devices, a_shape()], [worker]))) == ["lab-1"]


def test_every_decision_is_made_again_from_what_it_saw() -> None:
    shapes = [a_shape(), a_shape(), a_shape(cpu_cores=2.0), a_shape(), a_shape()]
    snapshot = a_snapshot(shapes, [busy(ahead=1), busy("lab-2", ahead=1, sent=[0])])
    for decision, seen in as_seen(snapshot, place(snapshot)):
        stored = record(decision, seen)
        assert replay(stored) == recorded(stored) == decision


def test_what_could_begin_elsewhere_is_asked_back_and_no_more_than_that() -> None:
    snapshot = a_snapshot([a_shape()], [busy(), a_worker("lab-2", cpu_cores=3.0)])
    scheduled = Pass(snapshot)
    tuple(scheduled.run())  # one of the three cores is taken by the queue
    waiting = [sent(snapshot, "lab-1", number) for number in range(4)]
    assert scheduled.to_recall(waiting) == waiting[:2]


def test_what_a_job_of_higher_priority_waits_behind_is_asked_back() -> None:
    for priority, expected in ((0, 0), (1, 1)):
        snapshot = a_snapshot([a_shape()], [busy(ahead=0)])
        queue = tuple(replace(pending, priority=priority) for pending in snapshot.queue)
        scheduled = Pass(replace(snapshot, queue=queue))
        tuple(scheduled.run())
        assert len(scheduled.to_recall([sent(snapshot, "lab-1")])) == expected


def test_what_is_asked_back_already_or_is_on_an_unknown_worker_is_let_be() -> None:
    snapshot = a_snapshot([a_shape()], [busy(), a_worker("lab-2", cpu_cores=3.0)])
    scheduled = Pass(snapshot)
    tuple(scheduled.run())
    known = sent(snapshot, "lab-1", is_recalled=True)
    assert scheduled.to_recall([known, sent(snapshot, "lab-9")]) == []


def test_what_has_room_after_all_begins_oldest_first() -> None:
    snapshot = a_snapshot([a_shape()], [])
    view = a_worker(cpu_cores=2.0, allocations=[holding()])
    first, second = (sent(snapshot, "lab-1", number) for number in range(2))
    assert to_begin([view], [first, second]) == [first]
    assert to_begin([view], [replace(first, is_recalled=True), second]) == [second]
    assert to_begin(with_begun([view], [first]), [second]) == []


def test_nobody_is_sent_behind_what_is_less_urgent() -> None:
    for priority, expected in ((0, ["lab-1"]), (1, [])):
        snapshot = a_snapshot([(a_shape(), {"priority": priority})], [busy(sent=[0, 3])])
        assert ahead(place(snapshot)) == expected


def test_how_many_depends_on_how_long_tasks_run() -> None:
    assert depth(None, 0.05) == 0
    assert depth(0.002, 0.05) == EACH
    assert depth(0.02, 0.05) == 2
    assert depth(0.06, 0.05) == 0
    assert depth(0.0, 0.05) == EACH
