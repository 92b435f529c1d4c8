"""How often a job may be given out. Pure, and without the models: workers ask too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

Restart = Literal["worker_lost", "preempted", "failed"]
RESTARTED_ON = get_args(Restart)
RETRIED_ON = ("worker_lost",)


def attempts_of(spec: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """The most attempts, and after what another one follows: as `retry` says, or `resume` of a
    distributed job, which starts again as a whole."""
    if (resume := spec.get("resume")) is not None:
        return int(resume.get("max_restarts", 1)) + 1, tuple(resume.get("on", RESTARTED_ON))
    retry = spec.get("retry") or {}
    return int(retry.get("max_attempts", 1)), tuple(retry.get("retry_on", RETRIED_ON))
