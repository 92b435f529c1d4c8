"""The end of a task as the plane is told it: what the supervisor saw, what the task left."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpulayer.contracts.fitting import fitted
from gpulayer.contracts.messages import Exit
from gpulayer.contracts.states import Reason, TaskState
from gpulayer.errors import GPULayerError, UsageError
from gpulayer.runtime import exits, frames, rank_shim
from gpulayer.slugs import SLUGS

RESULT_FILE_BYTES = 4 << 20
"""More than a runner ever writes."""
_RESULT = {"error": "Mapping[str, Any]"}
_ERROR = {"slug": "str", "message": "str"}

_REASONS = {
    "secret-missing": Reason.SECRET_MISSING,
    "secret-unsafe": Reason.SECRET_MISSING,
    "folder-gone": Reason.FOLDER_GONE,
    "interpreter-gone": Reason.NOT_FOUND,
    "disk-full": Reason.DISK_FULL,
    "port-taken": Reason.PORT_TAKEN,
    "command-not-found": Reason.NOT_FOUND,
    "not-executable": Reason.NOT_EXECUTABLE,
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


def of_ranks(ending: Exit, folder: str) -> Exit:
    """Add which rank failed first and how, or why none began; of a function, what rank 0 returned
    or the failed one raised. `folder` is that of the ranks."""
    if ending.outcome == TaskState.SUCCEEDED:
        return with_result(ending, os.path.join(folder, "0.result"))
    if ending.outcome != TaskState.FAILED:
        return ending
    try:
        ends = rank_shim.ends(folder)
        first = rank_shim.first_failure(ends)
        at = 0.0 if first is None else float(ends[first]["at"])
        each = [] if first is None else _ranks(ends, first)
    except (OSError, ValueError, TypeError):  # the job could put anything there
        return ending
    if first is None:
        return _without_ranks(ending, folder, began=bool(ends))
    ending = replace(ending, failed_rank=first, failed_at=at or None)
    ending = with_result(ending, os.path.join(folder, f"{first}.result"))
    ending = _with_raised(ending, os.path.join(folder, f"{first}.raised"))
    slug = "killed" if ending.reason == Reason.KILLED else "job-failed"
    error = ending.error or {"slug": slug, "message": ending.message}
    message = f"rank {first}: {ending.message}"
    error = {**error, "rank": first, "ranks": each}
    return replace(ending, message=message, error=error)


def _with_raised(ending: Exit, path: str) -> Exit:
    """Add what a script raised, which its exit code does not tell."""
    told = _read(path, {})
    result = _result(told) if told and ending.error is None else None
    if result is None or "error" not in result:
        return ending
    error = dict(result["error"])
    message = f"{error.get('type') or 'Exception'}: {error['message']}"
    return replace(ending, error=error, message=message)


def _ranks(ends: Mapping[int, Mapping[str, Any]], first: int) -> list[dict[str, Any]]:
    """How each rank of the node ended that did not succeed, in order."""
    return [
        {
            "rank": rank,
            "exit_code": end["code"],
            "signal": end["signal"],
            "message": exits.told(end["code"], end["signal"])
            if rank == first or not end.get("asked")
            else f"stopped because of rank {first}",
        }
        for rank, end in sorted(ends.items())
        if end["code"] != 0
    ]


def _without_ranks(ending: Exit, folder: str, *, began: bool) -> Exit:
    why = _read(os.path.join(folder, "node.end"), {"slug": "str", "message": "str"})
    if why is not None and "slug" in why and "message" in why:
        reason = _REASONS.get(why["slug"], Reason.RENDEZVOUS)
        return replace(ending, reason=reason, message=why["message"], error=why)
    if began:
        return ending
    return replace(ending, message=f"the launcher ended before any rank began: {ending.message}")


def of_container(ending: Exit, path: str) -> Exit:
    """Add why its engine could not run it, where that is the reason."""
    if ending.outcome != TaskState.FAILED:
        return ending
    why = _read(path, {"slug": "str", "message": "str"})
    if why is None or why.get("slug") not in SLUGS or "message" not in why:
        return ending
    reason = _REASONS.get(why["slug"], Reason.PREPARATION)
    return replace(ending, reason=reason, message=why["message"], error=why)


def with_result(ending: Exit, path: str) -> Exit:
    """Add what a function returned or raised, as its runner wrote it down."""
    result = _read(path, {})
    if result is None:
        return ending  # it was ended before it could answer, or ended itself: the exit says how
    return with_said(ending, result)


def with_said(ending: Exit, told: Mapping[str, Any]) -> Exit:
    """The same of what was read already."""
    result = _result(told)
    if result is None:
        return ending
    if ending.outcome == TaskState.SUCCEEDED:
        return replace(ending, value=value_in(result))
    if ending.outcome != TaskState.FAILED or "error" not in result:
        return ending
    error = dict(result["error"])
    reason = {
        "result-not-json": Reason.RESULT_NOT_JSON,
        "function-not-importable": Reason.NOT_FOUND,
        "command-not-found": Reason.NOT_FOUND,
        "not-executable": Reason.NOT_EXECUTABLE,
    }.get(error["slug"], Reason.EXCEPTION)
    return replace(ending, error=error, reason=reason, message=error["message"])


def value_in(told: Mapping[str, Any]) -> str | None:
    """What a function returned, as JSON; None where it said nothing of that."""
    return json.dumps(told["value"], separators=(",", ":")) if "value" in told else None


def no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _result(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if "error" not in result:
        return result
    try:
        fitted("a result", result, _RESULT)
        fitted("a result", {"slug": "", "message": "", **result["error"]}, _ERROR)
    except (UsageError, TypeError):
        return None
    return {"error": {"slug": "job-failed", "message": "", **result["error"]}}


def _read(path: str, shape: Mapping[str, str]) -> Mapping[str, Any] | None:
    """What a runner wrote, if it did: the job could put anything there, or a way to elsewhere."""
    try:
        result = json.loads(read_own(path, RESULT_FILE_BYTES), parse_constant=no_number)
        return fitted("a result", result, shape)
    except (ValueError, RecursionError, UsageError):
        return None


def read_own(path: str, most: int) -> str:
    """The text of a file of a task's; nothing where it is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, encoding="ascii") as file:
            return file.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except (OSError, ValueError):
        return ""


def with_outputs(ending: Exit, outputs: tuple[Mapping[str, Any], ...], note: str) -> Exit:
    """Add the stored files; `note` says which were left out and why."""
    message = "; ".join(part for part in (ending.message, note) if part)
    return replace(ending, outputs=outputs, message=message)


_FULL = frozenset((28, 122))
"""ENOSPC and EDQUOT of Linux and macOS (28, 69 there for the quota)."""
