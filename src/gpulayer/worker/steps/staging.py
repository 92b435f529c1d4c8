"""What a job brings from elsewhere: its source in the workspace, its inputs and what it shall read
on standard input beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from typing import Any, BinaryIO

from gpulayer.artifacts.extract import extract_bundle
from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import RefusedError
from gpulayer.worker.artifact_cache import Fetch
from gpulayer.worker.steps import fetching, plan
from gpulayer.worker.steps.plan import TaskPlan


def source(task: TaskPlan) -> None:
    """Unpack the job's bundle; the job then runs in it, wherever it was submitted."""
    address = task.workload.get("source")
    if not address:
        return
    workspace = plan.workspace(task.folder)
    with task.artifacts.open(_digest(address)) as archive:
        paths = extract_bundle(archive, workspace)
    task.cwd = workspace
    with open(plan.staged_file(task.folder), "w", encoding="utf-8") as file:
        json.dump(paths, file)


def inputs(task: TaskPlan) -> None:
    folder = plan.inputs(task.folder)
    for item in task.spec.get("inputs") or ():
        target = os.path.join(folder, item["path"])
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        digest = _digest(item["artifact"])
        if item.get("url"):
            fetching.stage(task, item, digest, partial(_stage, task, item, digest, target))
        else:
            _stage(task, item, digest, target)


def _stage(
    task: TaskPlan, item: Mapping[str, Any], digest: str, target: str, fetch: Fetch | None = None
) -> None:
    if item.get("unpack"):
        with task.artifacts.open(digest, fetch) as archive:
            _unpack_input(archive, target, item["path"])
    else:
        task.artifacts.stage(digest, target, fetch)


def _unpack_input(archive: BinaryIO, target: str, path: str) -> None:
    try:
        extract_bundle(archive, target)
    except RefusedError as error:
        if error.code != "bad-bundle":
            raise
        raise RefusedError(
            error.code,
            f"the input folder {path} is refused, and nothing of it was unpacked",
            why=error.why,
            hint=error.help,
        ) from error


def stdin(task: TaskPlan) -> None:
    """A file that the supervisor opens for this attempt, which so reads it from the start."""
    address = task.spec.get("stdin")
    if not address:
        return
    task.stdin = plan.stdin_file(task.folder)
    if os.path.lexists(task.stdin):
        os.unlink(task.stdin)  # of an earlier try of the same task
    task.artifacts.stage(_digest(address), task.stdin)


def _digest(address: str) -> str:
    return str(address).removeprefix(ADDRESS)
