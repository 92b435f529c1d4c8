"""When a job that waits is likely to begin: the passes to come, run on the limits of what runs.

The first in line has a reservation, and that holds: it begins by then at the latest, whoever comes,
however early others end. For a job behind it the scheduler itself is asked again and again, each
time as if everything that runs had ended exactly at its limit. That is the start if nothing comes
that goes first, and nothing ends sooner; so it is told as 'about'.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

from gpulayer.contracts.decision import Allocation, Decision, Outcome, Snapshot, WorkerView
from gpulayer.contracts.ids import JobId, WorkerId
from gpulayer.control_plane.scheduler.place import Pass

WORK = 100_000
"""Workers and jobs looked at for one forecast, over all of its passes."""
_FEWEST = 4
"""Passes, however large the fleet."""
_NAMED = 2
"""Jobs without a limit that are named."""


class Forecast(NamedTuple):
    at: float | None
    """When it begins; None: nobody can say."""
    is_sure: bool
    """It begins by then at the latest."""
    because: str
    """Why nobody can say. Empty: with these workers it never begins."""


def begins(snapshot: Snapshot, job_id: JobId) -> Forecast:
    """Of a job in the queue of a snapshot that has the time, and with the ends of what runs."""
    now = float(snapshot.limits["now"])
    shapes = {p.job_id: snapshot.shapes[p.shape_id] for p in snapshot.queue}
    views = {v.worker_id: dataclasses.replace(v, ahead=0) for v in snapshot.workers}
    queue = snapshot.queue
    passes = max(_FEWEST, WORK // max(1, len(views) + len(queue)))
    for number in range(passes):
        limits = {"detail": 0, "now": now}
        passed = Pass(Snapshot(snapshot.shapes, queue, tuple(views.values()), limits))
        told = list(passed.run())
        if not passed.could_place(shapes[job_id]):
            return Forecast(None, False, "")
        for decision in told:
            until = next((hold.until for hold in decision.holds), None)
            if decision.job_id == job_id and not number and until is not None:
                return Forecast(until, True, "")
            if decision.outcome is Outcome.PLACED:
                if decision.job_id == job_id:
                    return Forecast(now, not number, "")
                limit = shapes[decision.job_id].limit
                _take(views, decision, None if limit is None else now + limit)
        placed = {d.job_id for d in told if d.outcome is Outcome.PLACED}
        queue = tuple(p for p in queue if p.job_id not in placed)
        ends = [a.until for v in views.values() for a in v.allocations if a.until is not None]
        if not ends:
            able = passed.able(shapes[job_id])
            return Forecast(None, False, _without_limit(views[name] for name in able))
        now = max(now, min(ends))
        for view in list(views.values()):
            left = tuple(a for a in view.allocations if a.until is None or a.until > now)
            views[view.worker_id] = dataclasses.replace(view, allocations=left)
    return Forecast(None, False, "too many jobs end before it")


def _take(views: dict[WorkerId, WorkerView], decision: Decision, until: float | None) -> None:
    for p in decision.placements:
        view = views[p.worker_id]
        task = f"{decision.job_id}/{p.rank}"
        held = Allocation(task, decision.job_id, p.cpu_cores, p.memory_gb, p.gpus, until)
        views[p.worker_id] = dataclasses.replace(view, allocations=(*view.allocations, held))


def _without_limit(views: Iterable[WorkerView]) -> str:
    """Only those are left, or nobody."""
    jobs = sorted({a.job_id for view in views for a in view.allocations})
    if not jobs:
        return "the workers that could run it do not take it now"
    named = " and ".join(jobs[:_NAMED])
    more = len(jobs) - _NAMED
    if more > 0:
        named = f"{', '.join(jobs[:_NAMED])} and {more} more"
    return f"{named} {'has' if len(jobs) == 1 else 'have'} no time limit"
