"""Warm starts: what a function says of them, and what is told of how it began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.messages import Preparation, PreparedStep
from gpulayer.worker.steps.plan import TaskPlan

STEP = "preload"


def choose(task: TaskPlan, sys_path: list[str], *, in_place: bool) -> None:
    """What a process that it may be forked from has in common with it; a workspace is a task's
    own. An image brings its own Python."""
    if task.image is None:
        task.warm = {
            "preload": preload(task.spec),
            "sys_path": sys_path if in_place else [],
            "in_place": in_place,
        }


def preload(spec: Mapping[str, Any]) -> list[str]:
    return list((spec.get("environment") or {}).get("preload") or ())


def told(
    preparation: Preparation | None, spec: Mapping[str, Any], reply: Mapping[str, Any]
) -> Preparation | None:
    """With how a function began that names what to preload; of others nothing is told."""
    modules, cold = preload(spec), reply.get("cold")
    if not modules or cold is None:
        return preparation
    note = f"cold: {cold}" if cold else f"forked with {', '.join(modules)} imported"
    before = preparation or Preparation(0.0)
    return Preparation(before.seconds, (*before.steps, PreparedStep(STEP, 0.0, note)))
