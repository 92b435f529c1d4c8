"""What a part of a task's file of metrics says. Pure: the job could write anything there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from gpulayer.contracts import metrics
from gpulayer.runtime.reporting import MAX_LINE

MOST_POINTS = 2_000
"""Of one part: one a second is sent."""
TOO_FAST = "it reports faster than metrics are kept: some points are left out"
NO_METRICS = "some lines of its file are no metrics: left out"

Series = dict[tuple[int, str], list[metrics.Point]]
"""By index and name."""
Sent = tuple[dict[str, Any], ...]
"""As a `KeepMetrics` has it."""


@dataclass(slots=True)
class Part:
    series: Series = field(default_factory=dict)
    note: str = ""


def read(data: bytes, indices: range, now: float) -> Part:
    """Of whole lines. `indices`: of the elements that the task runs."""
    part = Part()
    for line in data.splitlines():
        if not _read_line(line, part.series, indices, now):
            part.note = NO_METRICS
    points = sum(map(len, part.series.values()))
    if points > MOST_POINTS:
        most = max(1, MOST_POINTS // len(part.series))
        part.series = {key: metrics.thinned(p, most) for key, p in part.series.items()}
        part.note = TOO_FAST
    return part


def _read_line(line: bytes, series: Series, indices: range, now: float) -> bool:
    """Whether all of it is what it should be."""
    if len(line) > MAX_LINE:
        return False
    try:
        told = json.loads(line)
        step, at, values = told["step"], told.get("at"), dict(told["values"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    index = told.get("index", indices[0])
    if type(index) is not int or index not in indices:
        return False
    is_good = True
    for name, value in values.items():
        point = metrics.point_of(step, at, value, now)
        if point is None or not metrics.is_name(name):
            is_good = False
        else:
            series.setdefault((index, name), []).append(point)
    return is_good


def sent(series: Series) -> Sent:
    return tuple(
        {"index": index, "name": name, "points": points} for (index, name), points in series.items()
    )
