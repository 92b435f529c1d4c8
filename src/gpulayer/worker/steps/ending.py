"""The end of a task as the plane is told it: what the supervisor saw, what the task left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpulayer.contracts.messages import Exit
from gpulayer.contracts.states import Reason, TaskState
from gpulayer.errors import SLUGS, GPULayerError
from gpulayer.runtime import exits, frames
from gpulayer.worker.steps import plan

_REASONS = {
    "secret-missing": Reason.SECRET_MISSING,
    "secret-unsafe": Reason.SECRET_MISSING,
    "folder-gone": Reason.FOLDER_GONE,
    "interpreter-gone": Reason.NOT_FOUND,
    "disk-full": Reason.DISK_FULL,
}


def of_process(raw: Mapping[str, Any]) -> Exit:
    """What the supervisor saw."""
    return Exit(
        outcome=raw["outcome"],
        reason=raw["reason"],
        message=raw.get("message") or "",
        exit_code=raw.get("exit_code"),
        signal=raw.get("signal"),
        started_at=raw.get("started_at"),
        ended_at=raw.get("ended_at"),
        usage=raw.get("usage") or {},
    )


def of_refusal(error: Exception, now: float) -> Exit:
    """A step, or the start itself, could not do its part. `now` is Unix time."""
    if isinstance(error, frames.Refused):
        shown = error.details.get("exit")  # what an attached client was told
        return of_process(shown or exits.refused(error.code, str(error), now))
    if isinstance(error, OSError) and not isinstance(error, GPULayerError):
        full = error.errno in _FULL
        error = GPULayerError("disk-full" if full else "internal", error.strerror or str(error))
    if not isinstance(error, GPULayerError):
        error = GPULayerError("internal", f"{type(error).__name__}: {error}")
    slug = SLUGS.get(error.code, SLUGS["internal"])
    return Exit(
        outcome=TaskState.FAILED,
        reason=_REASONS.get(error.code, Reason.PREPARATION),
        message=error.message,
        exit_code=slug.run_exit,
        ended_at=now,
        error={"slug": error.code, **error.to_json()},
    )


def with_result(ending: Exit, folder: str) -> Exit:
    """Add what a function returned or raised, as its runner wrote it down."""
    try:
        with open(plan.result_file(folder), encoding="ascii") as file:
            result = json.load(file)
    except (OSError, ValueError):
        return ending  # it was ended before it could answer, or ended itself: the exit says how
    if ending.outcome == TaskState.SUCCEEDED and "value" in result:
        return replace(ending, value=json.dumps(result["value"], separators=(",", ":")))
    if ending.outcome != TaskState.FAILED or "error" not in result:
        return ending
    error = result["error"]
    reason = {
        "result-not-json": Reason.RESULT_NOT_JSON,
        "function-not-importable": Reason.NOT_FOUND,
    }.get(error["slug"], Reason.EXCEPTION)
    return replace(ending, error=error, reason=reason, message=error["message"])


def with_outputs(ending: Exit, outputs: tuple[Mapping[str, Any], ...], note: str) -> Exit:
    """Add the stored files; `note` says which were left out and why."""
    message = "; ".join(part for part in (ending.message, note) if part)
    return replace(ending, outputs=outputs, message=message)


_FULL = frozenset((28, 122))
"""ENOSPC and EDQUOT of Linux and macOS (28, 69 there for the quota)."""
