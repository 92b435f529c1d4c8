"""How often a job may be given out. Pure, and without the models: workers ask too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def attempts_of(spec: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """The most attempts, and after what another one follows: as `retry` says, or `resume` of a
    distributed job, which starts again as a whole. What is left out is as in `reruns`."""
    if (resume := spec.get("resume")) is not None:
        causes = resume.get("on", ("worker_lost", "preempted", "failed"))
        return int(resume.get("max_restarts", 1)) + 1, tuple(causes)
    retry = spec.get("retry") or {}
    return int(retry.get("max_attempts", 1)), tuple(retry.get("retry_on", ("worker_lost",)))
