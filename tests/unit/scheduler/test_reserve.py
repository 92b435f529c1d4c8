"""The first that must wait has a reservation; others begin beside it where they do not delay it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpulayer.contracts.decision import (
    Allocation,
    Decision,
    Fit,
    Outcome,
    Sent,
    Shape,
    WorkerView,
)
from gpulayer.contracts.ids import WorkerId
from gpulayer.control_plane.scheduler.place import Pass, place
from gpulayer.control_plane.scheduler.reserve import PATIENCE
from gpulayer.control_plane.scheduler.shapes import rounded_limit, shape_id, shape_of
from tests.support.builders import a_shape, a_snapshot, a_worker

NOW = 1_000_000.0
HOUR = 3_600.0


def busy(cores: float, until: float | None, name: str = "lab-1", **facts: Any) -> WorkerView:
    """A machine with 4 cores, of which a task holds some."""
    held = Allocation(f"t-{name}", "other-1", cores, until=until)
    return a_worker(name, allocations=[held], cpu_cores=4.0, **facts)


def decided(jobs: list[Any], *workers: WorkerView, **limits: Any) -> dict[str, Decision]:
    return {d.job_id: d for d in place(a_snapshot(jobs, workers, now=NOW, **limits))}


def placed(jobs: list[Any], *workers: WorkerView, **limits: Any) -> list[str]:
    found = decided(jobs, *workers, **limits).values()
    return [d.job_id for d in found if d.outcome is Outcome.PLACED]


def lasting(seconds: float | None, cores: float = 1.0, **more: Any) -> Shape:
    return a_shape(cpu_cores=cores, limit=seconds, **more)


WIDE = a_shape(cpu_cores=4.0)


def test_what_ends_in_time_passes_and_what_does_not_waits_and_says_behind_whom() -> None:
    found = decided([WIDE, lasting(2 * HOUR), lasting(HOUR)], busy(2.0, NOW + HOUR))
    assert found["job-2"].outcome is Outcome.PLACED
    assert found["job-1"].outcome is Outcome.WAITING
    about = "the reservation of job-0 for about 1970-01-12 14:47 UTC"
    assert found["job-1"].summary == f"waits behind {about}"
    (check,) = [c for v in found["job-1"].verdicts for c in v.checks if c.fit is Fit.BUSY]
    assert (check.name, check.have) == ("reservation", about)
    (hold,) = found["job-0"].holds
    assert (hold.worker_id, hold.job_id, hold.until) == ("lab-1", "job-0", NOW + HOUR)


def test_what_is_left_beside_the_reservation_may_be_had_by_anybody() -> None:
    three = a_shape(cpu_cores=3.0)
    assert placed([three, lasting(None), lasting(None, 0.5)], busy(2.0, NOW + HOUR)) == ["job-1"]


def test_another_machine_is_not_reserved() -> None:
    fleet = busy(2.0, NOW + HOUR), busy(3.0, NOW + 2 * HOUR, "lab-2")
    found = decided([WIDE, lasting(None)], *fleet)
    assert [p.worker_id for p in found["job-1"].placements] == ["lab-2"]


def test_without_limits_a_job_is_passed_by_for_a_while_and_then_gathers_what_it_needs() -> None:
    young = (WIDE, {"since": NOW - PATIENCE + 1})
    old = (WIDE, {"since": NOW - PATIENCE})
    assert placed([young, lasting(None)], busy(2.0, None)) == ["job-1"]
    assert placed([old, lasting(None)], busy(2.0, None)) == []
    found = decided([old, lasting(1.0)], busy(2.0, None))
    assert found["job-1"].summary == "waits behind the reservation of job-0"
    assert placed([old, lasting(None)], busy(2.0, None), busy(3.0, None, "lab-2")) == ["job-1"]


def test_a_gang_has_its_machines_at_once_and_nobody_takes_one_of_them_meanwhile() -> None:
    gang = a_shape(cpu_cores=4.0, nodes=2, distinct=True)
    fleet = busy(4.0, NOW + HOUR), busy(0.0, NOW, "lab-2"), busy(4.0, None, "lab-3")
    found = decided([gang, lasting(None), lasting(60.0)], *fleet)
    assert {(h.worker_id, h.until) for h in found["job-0"].holds} == {
        ("lab-1", NOW + HOUR),
        ("lab-2", NOW + HOUR),
    }
    assert found["job-1"].outcome is Outcome.WAITING
    assert [p.worker_id for p in found["job-2"].placements] == ["lab-2"]


def test_devices_of_a_reservation_are_not_given_past_it() -> None:
    held = Allocation("t", "other-1", 1.0, gpus=("GPU-lab-1-0", "GPU-lab-1-1"), until=NOW + HOUR)
    worker = a_worker("lab-1", 4, allocations=[held], cpu_cores=32.0)
    one, three = a_shape(1), a_shape(3)
    assert placed([three, one, replace(one, memory_gb=1.0)], worker) == ["job-1"]
    short = replace(one, limit=60.0)
    assert placed([three, short, short], worker) == ["job-1", "job-2"]


def test_higher_priority_comes_first_and_has_the_reservation() -> None:
    urgent = (WIDE, {"priority": 1})
    found = decided([lasting(HOUR * 2, 3.0), urgent], busy(2.0, NOW + HOUR))
    assert found["job-1"].holds
    assert not found["job-0"].holds
    assert found["job-0"].outcome is Outcome.WAITING


def test_behind_a_reservation_the_shortest_goes_first() -> None:
    queue = [WIDE, lasting(HOUR, 1.5), lasting(60.0, 1.5)]
    assert placed(queue, busy(2.0, NOW + HOUR)) == ["job-2"]


def test_behind_a_reservation_who_waited_long_for_its_length_goes_first() -> None:
    long, short = lasting(HOUR, 1.5), lasting(60.0, 1.5)
    snapshot = a_snapshot([WIDE, short, long], [busy(2.0, NOW + 2 * HOUR)], now=NOW)
    new = replace(snapshot.queue[1], since=NOW - 60.0)
    for since, first in ((NOW - HOUR - 60.0, "job-2"), (NOW - HOUR + 60.0, "job-1")):
        old = replace(snapshot.queue[2], since=since)
        asked = replace(snapshot, queue=(snapshot.queue[0], new, old))
        begun = [d.job_id for d in place(asked) if d.outcome is Outcome.PLACED]
        assert begun == [first]


def test_a_job_from_inside_of_a_job_is_not_stopped() -> None:
    """The one that submitted it waits for it: both would wait for ever."""
    child = shape_of({}, {"parent_job": "other-1"})
    assert child.nested
    assert placed([WIDE, replace(child, limit=None)], busy(2.0, NOW + HOUR)) == ["job-1"]


def test_nothing_is_sent_ahead_to_where_something_is_kept_and_what_was_is_asked_back() -> None:
    held = Allocation("t", "other-1", 1.0, until=NOW + HOUR)
    worker = a_worker("lab-1", allocations=[held], cpu_cores=1.5, ahead=4)
    snapshot = a_snapshot([a_shape(cpu_cores=1.5), lasting(None)], [worker], now=NOW)
    scheduled = Pass(snapshot)
    assert all(d.outcome is Outcome.WAITING for d in scheduled.run())
    shape = lasting(None)
    sent = Sent("t-2", "j-2", WorkerId("lab-1"), shape_id(shape), 0, 1.0, 0.0)
    assert scheduled.to_recall([sent]) == [sent]


def test_a_queue_of_short_commands_that_is_old_reserves_nothing() -> None:
    """Each begins in the room of the one before; a reservation would stop what is sent ahead."""
    held = Allocation("t", "other-1", 1.0)
    worker = a_worker("lab-1", allocations=[held], cpu_cores=1.0, ahead=1, sent=[0])
    old = (lasting(None), {"since": 0.0})
    found = decided([old, old, a_shape(cpu_cores=0.5)], worker)
    assert all(not d.holds and d.outcome is Outcome.WAITING for d in found.values())


def test_a_pass_ends_where_the_queue_was_cut() -> None:
    small, other = lasting(None, 0.5), lasting(None, 0.25)
    assert placed([small, small, other], busy(0.0, None), heads=2) == ["job-0", "job-1"]
    assert len(placed([small, small, other], busy(0.0, None), heads=3)) == 3


def test_limits_that_are_nearly_equal_are_one_shape() -> None:
    given = [None, 1.0, 61.0, 3_599.0, 3_600.0, 3_601.0, 0.05]
    assert [rounded_limit(s) for s in given] == [None, 1.0, 61.0, 3600.0, 3600.0, 3700.0, 0.05]
    assert all(s <= (rounded_limit(s) or 0) <= 1.1 * s for s in range(1, 20_000, 7))


def test_elements_of_an_array_that_was_cut_are_all_looked_at_first() -> None:
    """They stand in the queue as often as they may be given out, all by the same name."""
    snapshot = a_snapshot([lasting(None, 0.5), lasting(None, 0.25)], [busy(0.0, None)], now=NOW)
    element, other = snapshot.queue
    cut = replace(snapshot, queue=(element, element, other), limits={"now": NOW, "heads": 2})
    assert [d.job_id for d in place(cut)] == ["job-0", "job-0"]
