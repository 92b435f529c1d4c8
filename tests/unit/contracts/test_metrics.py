"""The rules of metrics: what is a point, what stays of many, how attempts go on."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpulayer.contracts import limits, metrics
from gpulayer.errors import UsageError

NOW = 1_000.0


def line(*values: float, first: int = 0) -> list[metrics.Point]:
    return [[first + n, NOW, value] for n, value in enumerate(values)]


@pytest.mark.parametrize(
    ("step", "value", "point"),
    [
        (3, 0.5, [3, NOW, 0.5]),
        (-3, 2, [-3, NOW, 2.0]),
        (3, math.nan, [3, NOW, "nan"]),
        (3, -math.inf, [3, NOW, "-inf"]),
        (3, "nan", [3, NOW, "nan"]),
        (3, "0.5", None),
        (3, True, None),
        (3, None, None),
        (3, [1], None),
        (3, 10**400, None),
        (1.5, 0.5, None),
        (True, 0.5, None),
        (limits.METRIC_STEP, 0.5, [2**53, NOW, 0.5]),
        (limits.METRIC_STEP + 1, 0.5, None),
    ],
)
def test_a_point_is_a_whole_number_and_a_number(step: Any, value: Any, point: Any) -> None:
    assert metrics.point_of(step, NOW, value, NOW) == point


@pytest.mark.parametrize("at", [None, "x", 0, -1.0, math.nan, math.inf, NOW + 1e6, True])
def test_a_time_that_is_none_is_now(at: Any) -> None:
    assert metrics.point_of(1, at, 1.0, NOW) == [1, NOW, 1.0]


def test_a_name_is_short_and_can_be_shown() -> None:
    assert metrics.is_name("val/loss é")
    assert metrics.is_name("x" * limits.METRIC_NAME)
    for bad in ("", "x" * (limits.METRIC_NAME + 1), "a\nb", "\x1b[31m", "\ud800", 3, None):
        assert not metrics.is_name(bad)


def test_what_a_worker_sends_is_looked_at() -> None:
    good = {"index": 0, "name": "loss", "points": [[1, 2.0, 0.5], [2, 2.0, "nan"]]}
    assert metrics.checked([good]) == [(0, "loss", good["points"])]
    for bad in (
        {}, {**good, "name": ""}, {**good, "index": "0"}, {**good, "points": [[1, 2.0]]},
        {**good, "points": [[1, 2.0, math.nan]]}, {**good, "points": 3},
    ):  # fmt: skip
        with pytest.raises(UsageError, match="no metrics"):
            metrics.checked([bad])


values = st.lists(
    st.one_of(st.floats(-1e6, 1e6), st.sampled_from(["nan", "inf"])), min_size=5, max_size=400
)


@given(values, st.integers(4, 100))
def test_of_a_long_series_its_ends_its_peaks_and_its_order_stay(told: list[Any], most: int) -> None:
    points = [[n, NOW, value] for n, value in enumerate(told)]
    kept = metrics.thinned(points, most)
    assert len(kept) <= most
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert [p[0] for p in kept] == sorted(p[0] for p in kept)
    numbers = [p[2] for p in points[1:-1] if not isinstance(p[2], str)]
    if len(kept) > 4 and numbers and len(numbers) == len(points) - 2:
        shown = [p[2] for p in kept[1:-1]]
        assert (min(shown), max(shown)) == (min(numbers), max(numbers))


def test_a_jobs_metrics_are_bounded_and_the_long_ones_give() -> None:
    series = {(0, 1, "long"): line(*range(60_000)), (0, 1, "short"): line(1, 2, 3)}
    kept, gone = metrics.bounded(series)
    assert gone == 0
    assert kept[0, 1, "short"] == series[0, 1, "short"]
    assert 5_000 < len(kept[0, 1, "long"]) <= limits.METRIC_POINTS // 2
    many = {(n, 1, "x"): line(1.0) for n in range(limits.METRIC_SERIES + 5)}
    kept, gone = metrics.bounded(many)
    assert (len(kept), gone) == (limits.METRIC_SERIES, 5)


def test_a_later_attempt_goes_on_from_its_first_step() -> None:
    series = {
        (0, 2, "loss"): line(10, 11, first=3),
        (0, 1, "loss"): line(0, 1, 2, 3, 4, 5),
        (0, 1, "acc"): line(7),
        (4, 1, "loss"): line(9),
    }
    curves = metrics.curves(series)
    told = [(attempt, step, value) for attempt, (step, _, value) in curves[0, "loss"]]
    assert told == [(1, 0, 0), (1, 1, 1), (1, 2, 2), (2, 3, 10), (2, 4, 11)]
    assert list(curves) == [(0, "acc"), (0, "loss"), (4, "loss")]


def test_a_curve_tells_its_newest_its_least_and_its_greatest() -> None:
    curve = [(1, point) for point in line(3.0, 1.0, 2.0)] + [(2, [9, NOW, "nan"])]
    told = metrics.curve_json(0, "loss", curve, whole=False)
    assert told == {
        "index": 0, "name": "loss", "count": 4, "least": 1.0, "greatest": 3.0,
        "last": {"step": 9, "at": NOW, "value": "nan", "attempt": 2},
    }  # fmt: skip
    assert len(metrics.curve_json(0, "loss", curve, whole=True)["points"]) == 4
