"""Metrics of a run: numbers by name, as series of points. Pure.

A point is `[step, at, value]`: a whole number, Unix seconds, and a number or one of `nan`, `inf`,
`-inf`. What a worker sends and what is stored names whose they are:

    {index, name, points}           sent: of an element (0 of a job that is no array)
    [index, attempt, name, points]  stored

What grows without end is thinned: of four points the least and the greatest stay, so that a peak
is seen at any length, and the first and the newest of all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpulayer.contracts import limits
from gpulayer.errors import UsageError

Point = list[Any]
Key = tuple[int, int, str]
"""Index, attempt, name."""

_ODD = ("nan", "inf", "-inf")
_FEWEST = 4
"""A series is not thinned below this."""


def point_of(step: Any, at: Any, value: Any, now: float) -> Point | None:
    """Of what a program wrote; None: it is no point. `now` stands in for a time that is none."""
    if type(step) is not int or abs(step) > limits.METRIC_STEP:
        return None
    if type(at) not in (int, float) or not 0 < at < now + 86_400:
        at = now
    if value in _ODD:
        return [step, round(float(at), 3), value]
    try:
        number = float(value) if type(value) in (int, float) else None
    except OverflowError:
        number = None
    if number is None:
        return None
    return [step, round(float(at), 3), number if math.isfinite(number) else str(number)]


def is_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= limits.METRIC_NAME and name.isprintable()


def checked(sent: Iterable[Mapping[str, Any]]) -> list[tuple[int, str, list[Point]]]:
    """What a worker says. Raises `usage` where it is not what it should be."""
    found = []
    for one in sent:
        try:
            index, name, points = one["index"], one["name"], one["points"]
            good = type(index) is int and is_name(name)
            good = good and all(_is_point(*point) for point in points)
        except (KeyError, TypeError, ValueError):
            good = False
        if not good:
            raise UsageError("usage", "these are no metrics")
        found.append((index, name, points))
    return found


def _is_point(step: Any, at: Any, value: Any) -> bool:
    return [step, at, value] == point_of(step, at, value, math.inf)


def thinned(points: list[Point], most: int) -> list[Point]:
    """At most so many, or the fewest that a series may have."""
    while len(points) > max(most, _FEWEST):
        points = _halved(points)
    return points


def _halved(points: list[Point]) -> list[Point]:
    first, *middle, last = points
    kept = [first]
    for start in range(0, len(middle), 4):
        four = middle[start : start + 4]
        least, greatest = min(four, key=_height), max(four, key=_height)
        kept += [point for point in four if point is least or point is greatest]
    return [*kept, last]


def joined(rows: Iterable[Iterable[Sequence[Any]]]) -> dict[Key, list[Point]]:
    """The series of stored rows, in the order in which they came."""
    found: dict[Key, list[Point]] = {}
    for row in rows:
        for index, attempt, name, points in row:
            found.setdefault((index, attempt, name), []).extend(points)
    return found


def bounded(series: Mapping[Key, list[Point]]) -> tuple[dict[Key, list[Point]], int]:
    """What is kept of a job's, with room for as much again; and how many series had to go."""
    kept = dict(list(series.items())[: limits.METRIC_SERIES])
    room = limits.METRIC_POINTS // 2
    while (total := sum(map(len, kept.values()))) > room:
        share = max(_FEWEST, total // len(kept))
        kept = {
            key: _halved(points) if len(points) >= share else points for key, points in kept.items()
        }
    return kept, len(series) - len(kept)


def stored(series: Mapping[Key, list[Point]]) -> list[list[Any]]:
    return [[*key, points] for key, points in series.items()]


def curves(series: Mapping[Key, list[Point]]) -> dict[tuple[int, str], list[tuple[int, Point]]]:
    """By index and name: (attempt, point) each. A later attempt goes on from its first step: what
    an earlier one told from there on was done again."""
    found: dict[tuple[int, str], list[tuple[int, Point]]] = defaultdict(list)
    for (index, attempt, name), points in sorted(series.items(), key=lambda item: item[0]):
        begins = min(point[0] for point in points)
        before = [told for told in found[index, name] if told[1][0] < begins]
        found[index, name] = before + [(attempt, point) for point in points]
    return dict(found)


def curve_json(
    index: int, name: str, curve: list[tuple[int, Point]], *, whole: bool
) -> dict[str, Any]:
    """As the API tells it: the newest value with the least and the greatest; all if `whole`."""
    values = [point[2] for _, point in curve if point[2] not in _ODD]
    told = [_point_json(*one) for one in (curve if whole else curve[-1:])]
    return {
        "index": index,
        "name": name,
        "count": len(curve),
        "last": told[-1],
        "least": min(values, default=None),
        "greatest": max(values, default=None),
        **({"points": told} if whole else {}),
    }


def _point_json(attempt: int, point: Point) -> dict[str, Any]:
    return dict(zip(("step", "at", "value"), point, strict=True)) | {"attempt": attempt}


def _height(point: Point) -> float:
    """What is no number is worth to be seen."""
    return math.inf if point[2] == "nan" else float(point[2])
