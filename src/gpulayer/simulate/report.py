"""Figures of a replay: how long jobs waited, by how many GPUs they asked for, and how full the
fleet was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.simulate.engine import Run, Sized

CLASSES: Mapping[str, tuple[int, float]] = {
    "all": (0, math.inf),
    "0": (0, 0),
    "1": (1, 1),
    "2-7": (2, 7),
    "8-31": (8, 31),
    "32+": (32, math.inf),
    "8+": (8, math.inf),
}
"""Least and most GPUs."""


def figures(jobs: Sequence[Sized], run: Run, gpus: int) -> dict[str, Any]:
    """In seconds. `utilisation`: the share of all GPU time from the first arrival to the last end
    that jobs had."""
    span = run.ended - jobs[0].job.at if jobs else 0.0
    used = sum(jobs[n].job.seconds * jobs[n].job.gpus for n in run.waits)
    classes = {}
    for name, (least, most) in CLASSES.items():
        own = [job for job in jobs if least <= job.job.gpus <= most]
        if own:
            classes[name] = _of_waits(
                sorted(run.waits[j.number] for j in own if j.number in run.waits)
            )
            classes[name]["never_began"] = sum(job.number not in run.waits for job in own)
    utilisation = used / (span * gpus) if span and gpus else 0.0
    return {"classes": classes, "utilisation": utilisation, "makespan": span}


def _of_waits(waits: Sequence[float]) -> dict[str, Any]:
    return {
        "jobs": len(waits),
        "mean": sum(waits) / len(waits) if waits else None,
        "median": _rank(waits, 0.5),
        "p99": _rank(waits, 0.99),
        "max": _rank(waits, 1.0),
    }


def _rank(waits: Sequence[float], share: float) -> float | None:
    """The smallest wait that so large a share of all waits does not pass."""
    return waits[max(0, math.ceil(share * len(waits)) - 1)] if waits else None
