"""What a job has reported, for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpulayer.api.paths import job_path


class Point(NamedTuple):
    """One value of a metric."""

    step: int
    value: float
    """It may be a NaN, or infinite."""
    at: float
    """Unix seconds by the clock of the machine that it ran on."""
    attempt: int
    element: int
    """Its index, of an array; 0 else."""


def metrics(call: Callable[..., Any], job_id: str, index: int | None) -> dict[str, list[Point]]:
    """By name, from the plane that `call` asks."""
    only = {} if index is None else {"index": index}
    told = call("GET", job_path(job_id, "metrics", points=1, **only))
    found: dict[str, list[Point]] = {}
    for series in told["series"]:
        found.setdefault(series["name"], []).extend(
            Point(p["step"], float(p["value"]), p["at"], p["attempt"], series["index"])
            for p in series["points"]
        )
    return found
