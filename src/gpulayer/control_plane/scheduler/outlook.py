"""What comes of a job that does not begin now: when it may, and with which changes it would.

Everything here is an answer of the scheduler to a job that was changed, or to a fleet with one more
worker, behind all that waits. Nothing is said that was not placed that way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpulayer.contracts.decision import Pending, Shape, Snapshot
from gpulayer.contracts.ids import JobId
from gpulayer.control_plane.scheduler import changes, forecast, newcomer
from gpulayer.control_plane.scheduler.changes import Change, Fields, Spec
from gpulayer.control_plane.scheduler.forecast import Forecast
from gpulayer.control_plane.scheduler.place import Pass
from gpulayer.control_plane.scheduler.shapes import shape_id

_MOST = 4
"""Suggestions that are told."""

Shaped = Callable[[Spec], Shape | None]
"""The shape of a changed spec; None: nobody could submit that."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One thing that would let the job begin, tried out."""

    text: str
    """`--gpus 2`, or `one more worker with 4 free GPUs, 1 free core`."""
    fields: Fields
    """What to set in the spec; empty: it is not the job that changes."""
    start: Forecast
    """Of the job with it."""
    workers: tuple[str, ...] = ()
    """Names of those that it would begin on."""
    together: bool = False
    """It is several changes, and all of them are needed."""


@dataclass(frozen=True, slots=True)
class Outlook:
    start: Forecast
    """Of the job as it is."""
    suggestions: tuple[Suggestion, ...]


def outlook(snapshot: Snapshot, job: Pending, spec: Spec, shaped: Shaped) -> Outlook:
    """`snapshot`: the queue with the job in it, the time, and workers with the ends of what runs.
    Of a changed job it is asked where it would be as the newest one of its priority."""
    shape = snapshot.shapes[job.shape_id]
    others = tuple(p for p in snapshot.queue if p.job_id != job.job_id)
    newest = dataclasses.replace(job, job_id=JobId("planned"), seq=_next(others))
    tried = _Tried(snapshot, others, newest)
    return Outlook(
        forecast.begins(snapshot, job.job_id),
        tuple(_suggestions(tried, spec, shape, shaped))[:_MOST],
    )


class _Tried:
    """The queue and the workers, and a job behind all others that is changed again and again."""

    def __init__(self, snapshot: Snapshot, others: tuple[Pending, ...], newest: Pending) -> None:
        self._snapshot = snapshot
        self._newest = newest
        self.instant = float(snapshot.limits["now"])
        # Those of a lower priority come after it.
        first = tuple(p for p in others if p.priority >= newest.priority)
        self._before = dataclasses.replace(snapshot, queue=first, limits=_whole(snapshot.limits))
        self._others = others
        self.workers = snapshot.workers
        self.passed = Pass(self._before)
        list(self.passed.run())

    def now(self, shape: Shape) -> bool:
        return bool(self.passed.would_place(shape))

    def spare(self) -> float | None:
        start = self.passed.start
        return None if start is None else start - self.instant

    def workers_now(self, shape: Shape) -> tuple[str, ...]:
        names = {view.worker_id: view.name for view in self.workers}
        chosen = self.passed.would_place(shape)
        return tuple(dict.fromkeys(names[p.worker_id] for p in chosen))

    def start(self, shape: Shape) -> Forecast:
        if self.now(shape):
            return Forecast(self.instant, True, "")
        return forecast.begins(self._with(shape), self._newest.job_id)

    def enough_newcomers(self, shape: Shape) -> int | None:
        """The fewest workers as the job lacks them that let it begin at once."""
        workers = list(self.workers)
        for count in range(1, shape.nodes + 1):
            joined = newcomer.newcomer(shape, count - 1)
            if joined is None:
                return None
            workers.append(joined)
            passed = Pass(dataclasses.replace(self._before, workers=tuple(workers)))
            list(passed.run())
            if passed.would_place(shape):
                return count
        return None

    def _with(self, shape: Shape) -> Snapshot:
        job = dataclasses.replace(self._newest, shape_id=shape_id(shape))
        shapes = {**self._snapshot.shapes, job.shape_id: shape}
        return dataclasses.replace(self._before, shapes=shapes, queue=(*self._others, job))


def _suggestions(tried: _Tried, spec: Spec, shape: Shape, shaped: Shaped) -> Iterator[Suggestion]:
    if tried.now(shape):
        return
    known: dict[str, Shape | None] = {}

    def of(fields: Fields) -> Shape | None:
        key = repr(sorted(fields.items()))
        if key not in known:
            known[key] = shaped(changes.applied(spec, fields))
        return known[key]

    def begins(fields: Fields) -> bool:
        found = of(fields)
        return found is not None and tried.now(found)

    def could_begin(fields: Fields) -> bool:
        found = of(fields)
        return found is not None and tried.passed.could_place(found)

    axes = changes.axes(spec, shape, tried.workers, tried.spare())
    found = changes.smallest(axes, begins)
    if not tried.passed.could_place(shape):
        found = [*changes.smallest(axes, could_begin), *found]
    told: list[Change] = []
    for change in sorted(found, key=lambda one: len(one.axes)):
        changed = of(change.fields)
        if changed is None or change in told:
            continue
        told.append(change)
        yield Suggestion(
            changes.words(spec, change),
            change.fields,
            tried.start(changed),
            tried.workers_now(changed),
            together=len(change.axes) > 1,
        )
        if len(told) == _MOST - 1:
            break
    count = tried.enough_newcomers(shape)
    if count is not None:
        text = f"{'one' if count == 1 else count} more worker{'' if count == 1 else 's'} with "
        now = Forecast(tried.instant, True, "")
        yield Suggestion(text + newcomer.has(shape), {}, now)


def _whole(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in limits.items() if k not in ("heads", "max_placements")}


def _next(queue: Sequence[Pending]) -> int:
    return 1 + max((p.seq for p in queue), default=0)
