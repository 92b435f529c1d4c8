"""How a task ended, as the one record that supervisor, agent, plane and client pass on. Pure.

Where several causes are true the order is cancelled, timed out, failed, lost: a job that was
asked to end and ended by itself in the same moment is cancelled, never both.
"""

from __future__ import annotations

import os
import signal as signals
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CANCEL, TIMEOUT, INTERRUPT = "cancel", "timeout", "interrupt"
"""What was done to a job, and thus why it ended; the earlier outranks the later.

`INTERRUPT` is Ctrl-C at the job's own terminal. It is the job's affair, as in a debugger; only an
end with `INTERRUPTED_CODE` says that it was meant, and taken, as the end.
"""
RANK = {CANCEL: 3, TIMEOUT: 2, INTERRUPT: 1, None: 0}

TIMED_OUT_CODE, OURS_CODE, NOT_EXECUTABLE_CODE, NOT_FOUND_CODE = 124, 125, 126, 127
INTERRUPTED_CODE = 130

_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes that `ru_maxrss` counts in: getrusage(2)."""

REFUSALS = {
    "not-found": ("not_found", NOT_FOUND_CODE),
    "not-executable": ("not_executable", NOT_EXECUTABLE_CODE),
    "folder-gone": ("folder_gone", NOT_EXECUTABLE_CODE),
    "spawn-failed": ("preparation", NOT_EXECUTABLE_CODE),
    "envelope-lost": ("envelope_lost", OURS_CODE),
    "disk-full": ("disk_full", OURS_CODE),
}
"""Why a job never began: the code of the protocol -> reason, exit code."""


def ended(
    status: int,
    *,
    cause: str | None,
    reason: str | None,
    out_of_memory: bool,
    started_at: float,
    ended_at: float,
    usage: dict[str, Any],
    leftovers: int,
) -> dict[str, Any]:
    """The record of a job that ran. `status` is that of wait(2); `reason` goes with `cause`;
    `out_of_memory` counts where `is_kill`."""
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    own_code = code if code is not None else 128 + (signum or 0)
    if cause == CANCEL or (cause == INTERRUPT and own_code == INTERRUPTED_CODE):
        outcome, why, exit_code, message = "cancelled", reason or "user", own_code, "cancelled"
    elif cause == TIMEOUT:
        outcome, why, exit_code = "timed_out", "timeout", TIMED_OUT_CODE
        message = "ran past its timeout"
    elif out_of_memory and is_kill(status):
        outcome, why, exit_code = "failed", "out_of_memory", own_code
        message = "it was killed while the kernel ended processes for want of memory"
    elif code == 0:
        outcome, why, exit_code, message = "succeeded", "exited", 0, ""
    else:
        outcome, exit_code, message = "failed", own_code, told(own_code, signum)
        why = "exited" if signum is None else "killed"
    return {
        "outcome": outcome,
        "reason": why,
        "code": code,
        "signal": signum,
        "exit_code": exit_code,
        "started_at": started_at,
        "ended_at": ended_at,
        "usage": usage,
        "leftovers": leftovers,
        "message": message,
    }


def is_kill(status: int) -> bool:
    """Whether SIGKILL ended the job, or what its shell waited for."""
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signals.SIGKILL
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 128 + signals.SIGKILL


def refused(code: str, message: str, now: float) -> dict[str, Any]:
    """The record of a job that never began."""
    reason, exit_code = REFUSALS.get(code, REFUSALS["spawn-failed"])
    return _without_process("failed", reason, exit_code, None, now, message)


def lost(started_at: float | None, now: float, message: str) -> dict[str, Any]:
    """The record of a job whose end nobody saw: its supervisor or keeper died."""
    return _without_process("lost", "supervisor_lost", OURS_CODE, started_at, now, message)


def usage_of(rusage: Any) -> dict[str, Any]:
    """Of a leader and those of its children it waited for (wait4(2)); Linux counts KiB."""
    return {
        "user_seconds": rusage.ru_utime,
        "system_seconds": rusage.ru_stime,
        "max_rss_bytes": rusage.ru_maxrss * _RSS_UNIT,
    }


def told(code: int, signum: int | None) -> str:
    """How what did not succeed ended, in words."""
    return f"exit code {code}" if signum is None else f"ended by {signal_name(signum)}"


def signal_name(signum: int) -> str:
    try:
        return signals.Signals(signum).name
    except ValueError:
        return f"signal {signum}"


def _without_process(
    outcome: str, reason: str, exit_code: int, started_at: float | None, now: float, message: str
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "reason": reason,
        "code": None,
        "signal": None,
        "exit_code": exit_code,
        "started_at": started_at,
        "ended_at": now,
        "usage": {"user_seconds": 0.0, "system_seconds": 0.0, "max_rss_bytes": 0},
        "leftovers": 0,
        "message": message,
    }
