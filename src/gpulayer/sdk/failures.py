"""From a job that ended badly to the exception that says so.

A function's own exception is the `__cause__`, rebuilt when it is one of Python's own, with the
remote traceback as a note. Nothing of a job's answer is ever executed or imported to do so.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.errors import (
    SLUGS,
    GPULayerError,
    JobCancelledError,
    JobFailedError,
    JobLostError,
    JobTimedOutError,
    PreparationError,
    SchedulingError,
)

_SLUG_OF_REASON = {
    "not_found": "command-not-found",
    "not_executable": "not-executable",
    "secret_missing": "secret-missing",
    "folder_gone": "folder-gone",
    "envelope_lost": "envelope-lost",
    "result_not_json": "result-not-json",
    "worker_lost": "worker-lost",
    "supervisor_lost": "worker-lost",
    "crash_limit": "worker-lost",
    "unschedulable": "no-matching-worker",
    "killed": "killed",
    "out_of_memory": "killed",
}
_CLASS_OF_STATE: dict[str, type[GPULayerError]] = {
    "cancelled": JobCancelledError,
    "timed_out": JobTimedOutError,
}
_SLUG_OF_STATE = {"cancelled": "cancelled", "timed_out": "timeout"}


class RemoteError(Exception):
    """An exception of a class that only exists where the job ran. `str` is its message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def failure_of(job: Mapping[str, Any], last_lines: Sequence[str] = ()) -> GPULayerError:
    """The exception for a job that has ended and did not succeed."""
    reported = (job.get("result") or {}).get("error") or {}
    slug = reported.get("slug") or _slug(job)
    cls = _CLASS_OF_STATE.get(job["state"]) or SLUGS[slug].error
    if not issubclass(
        cls,
        SchedulingError | PreparationError | JobLostError | JobCancelledError | JobTimedOutError,
    ):
        cls = JobFailedError
    error = cls(
        slug,
        f"job {job['id']} {_what(job, reported)}",
        why=str(reported.get("why") or ""),
        hint=(f"gpulayer logs {job['id']}", f"gpulayer why {job['id']}"),
        job_id=job["id"],
        details={"state": job["state"], "exit_code": job.get("exit_code")},
    )
    if last_lines:
        error.add_note("last lines of the job:\n" + "\n".join(f"  {line}" for line in last_lines))
    if reported.get("type"):
        error.__cause__ = cause_of(reported)
    return error


def cause_of(reported: Mapping[str, Any]) -> Exception:
    """The remote exception: the same builtin class with the same arguments, else `RemoteError`."""
    kind, message = str(reported["type"]), str(reported.get("message", ""))
    cls = getattr(builtins, kind, None) if reported.get("module") == "builtins" else None
    cause: Exception = RemoteError(kind, message)
    if isinstance(cls, type) and issubclass(cls, Exception):
        try:
            cause = cls(*reported.get("args", (message,)))
        except Exception:
            pass  # a class that wants other arguments stays a RemoteError
    if reported.get("traceback"):
        cause.add_note("remote traceback:\n" + str(reported["traceback"]).rstrip())
    return cause


def _slug(job: Mapping[str, Any]) -> str:
    return _SLUG_OF_STATE.get(job["state"]) or _SLUG_OF_REASON.get(job["reason"], "job-failed")


def _what(job: Mapping[str, Any], reported: Mapping[str, Any]) -> str:
    if reported.get("type"):
        return f"raised {reported['type']}: {reported.get('message', '')}"
    text = str(job["state"]).replace("_", " ")
    if job.get("exit_code"):
        text += f" with exit code {job['exit_code']}"
    return f"{text}: {job['message']}" if job.get("message") else text
