"""Warm starts: what a function says of them, and what is told of how it began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.messages import Preparation, PreparedStep
from gpulayer.worker.steps import scripts
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


def choose_script(task: TaskPlan, *, in_place: bool) -> None:
    """The same for `python FILE` and `python -m MODULE`, where that is sure. What is imported
    ahead is what the job names, else what the script does; nothing named is nothing: cold."""
    named = (task.spec.get("environment") or {}).get("preload")
    script = scripts.script_in(task.argv)
    if script is None or named == []:
        return
    folder = task.cwd or (task.assignment.origin.get("cwd") if in_place else None)
    if not folder:
        return
    found = scripts.imports_of(task.argv[script.at], str(folder), is_module=script.is_module)
    if found is None or not (named or found.heavy):
        return
    task.warm = {
        "preload": list(named or found.heavy),
        "sys_path": [],
        "in_place": in_place,
        "script": {
            "flags": list(script.flags),
            "at": script.at,
            "module": script.is_module,
            "named": bool(named),
            "files": [list(pair) for pair in found.files],
        },
    }


def preload(spec: Mapping[str, Any]) -> list[str]:
    return list((spec.get("environment") or {}).get("preload") or ())


def told(
    preparation: Preparation | None, task: Mapping[str, Any], reply: Mapping[str, Any]
) -> Preparation | None:
    """With how a task began for which something is imported ahead; of others nothing is told."""
    modules, cold = (task.get("warm") or {}).get("preload"), reply.get("cold")
    if not modules or cold is None:
        return preparation
    note = f"cold: {cold}" if cold else f"forked with {', '.join(modules)} imported"
    before = preparation or Preparation(0.0)
    return Preparation(before.seconds, (*before.steps, PreparedStep(STEP, 0.0, note)))
