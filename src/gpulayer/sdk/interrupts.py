"""What Ctrl-C means, and how a client ends as its job did.

With plain streams the first one is passed on as SIGINT (TERM after ten seconds, then KILL), the
second kills and waits for the proof, the third leaves. Where the job has a terminal of its own,
Ctrl-C is a key like any other and starts no timer, as in a debugger; only three within two seconds
kill. A job that has not begun is cancelled by the first.

A client whose job was killed by a signal dies by the same: shells stop their loops and scripts
only for a child that did (and not for one that exits with 130).
"""

from __future__ import annotations

import os
import resource
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

GRACE_SECONDS = 10.0
INTERRUPTED_CODE = 130
QUICK_SECONDS = 2.0

PASS, INTERRUPT, KILL, LEAVE = "pass", "int", "kill", "leave"


class Ladder:
    """Counts presses and answers what each means. Pure: `now` comes from the caller."""

    def __init__(self) -> None:
        self._presses: list[float] = []
        self._rung = 0

    def press(self, now: float, *, is_key: bool) -> str:
        """`is_key`: the job runs and has a terminal, so that the press is its own affair."""
        if is_key and self._rung == 0:
            self._presses = [t for t in self._presses if now - t <= QUICK_SECONDS] + [now]
            if len(self._presses) < 3:
                return PASS
            self._rung = 2
            return KILL
        self._rung += 1
        return (INTERRUPT, KILL, LEAVE)[min(self._rung, 3) - 1]


class ExitReport:
    """How the job ended, as far as its watcher saw. `exit_code` follows the shell's convention."""

    __slots__ = ("exit_code", "message", "outcome", "reason", "signal")

    def __init__(
        self,
        outcome: str,
        exit_code: int,
        *,
        reason: str = "",
        message: str = "",
        signal: int | None = None,
    ) -> None:
        self.outcome = outcome
        """A terminal state of a task, or `left`: the client went, the job may go on."""
        self.exit_code = exit_code
        self.reason = reason
        self.message = message
        self.signal = signal
        """The signal that ended the job."""

    @classmethod
    def of_task(cls, ended: Mapping[str, Any]) -> ExitReport:
        """From the supervisor's record."""
        return cls(
            ended["outcome"],
            ended["exit_code"],
            reason=ended.get("reason", ""),
            message=ended.get("message", ""),
            signal=ended.get("signal"),
        )

    @classmethod
    def of_job(cls, job: Mapping[str, Any]) -> ExitReport:
        """From the plane's: a job that ended without a word to its watcher, never begun or lost."""
        code = job.get("exit_code")
        if code is None and job["state"] == "cancelled":
            code = INTERRUPTED_CODE  # before it began: no process had a code of its own
        return cls(
            "lost" if code is None else job["state"],
            125 if code is None else int(code),
            reason=job.get("reason") or "",
            message=job.get("message") or "",
        )


def end_as(report: ExitReport) -> None:
    """End this process as the job ended; does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    if report.signal and report.outcome != "timed_out":
        die_by(report.signal)
    sys.exit(report.exit_code)


def die_by(signum: int) -> None:
    """Be killed by `signum`, without a core file. Returns only for a signal that kills nobody."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        if signum not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signum])
        os.kill(os.getpid(), signum)
    except (OSError, ValueError):
        pass  # a signal that this system does not know: the exit code says it
