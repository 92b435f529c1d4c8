"""From a job that ended badly to the exception that says so: what, why, and the line that mends.

A function's own exception is the `__cause__`, rebuilt when it is one of Python's own, with the
remote traceback as a note. Nothing of a job's answer is ever executed or imported to do so.
"""

from __future__ import annotations

import builtins
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.contracts.durations import duration_text
from gpulayer.errors import (
    GPULayerError,
    JobCancelledError,
    JobFailedError,
    JobLostError,
    JobTimedOutError,
    PreparationError,
    SchedulingError,
)
from gpulayer.sdk import mending
from gpulayer.slugs import SLUGS

_SLUG_OF_REASON = {
    "not_found": "command-not-found",
    "not_executable": "not-executable",
    "secret_missing": "secret-missing",
    "folder_gone": "folder-gone",
    "envelope_lost": "envelope-lost",
    "preparation": "start-failed",
    "disk_full": "disk-full",
    "result_not_json": "result-not-json",
    "worker_lost": "worker-lost",
    "supervisor_lost": "worker-lost",
    "crash_limit": "worker-lost",
    "unschedulable": "no-matching-worker",
    "killed": "killed",
    "out_of_memory": "killed",
}
_BEFORE_ITS_START = ("preparation", "disk_full")
"""Then a worker says where: which phase of its preparation."""
_CLASS_OF_STATE: dict[str, type[GPULayerError]] = {
    "cancelled": JobCancelledError,
    "timed_out": JobTimedOutError,
}
_SLUG_OF_STATE = {"cancelled": "cancelled", "timed_out": "timeout"}
_WANTS = {
    "no-gpu": "asks for a GPU, and no worker has one that can be used",
    "no-matching-worker": "fits no worker, and asked not to wait for one",
    "python-mismatch": "asks for a Python that no worker has",
}
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b")
_FRAME = re.compile(r'\s+File "([^"]+)", line (\d+)')


class RemoteError(Exception):
    """An exception of a class that only exists where the job ran. `str` is its message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


def failure_of(job: Mapping[str, Any], last_lines: Sequence[str] = ()) -> GPULayerError:
    """The exception for a job that has ended and did not succeed. `last_lines` of its log tell
    what it said itself; a cause that nobody saw is never guessed."""
    reported = (job.get("result") or {}).get("error") or {}
    slug = _slug(job, reported)
    cls = _CLASS_OF_STATE.get(job["state"]) or SLUGS[slug].error
    if not issubclass(
        cls,
        SchedulingError | PreparationError | JobLostError | JobCancelledError | JobTimedOutError,
    ):
        cls = JobFailedError
    error = cls(
        slug,
        f"{_who(job)} {_what(slug, job, reported)}",
        where=str(reported.get("where") or "") if job["reason"] in _BEFORE_ITS_START else "",
        why=_why(slug, job, reported, last_lines),
        hint=mending.of_job(slug, job, reported),
        job_id=job["id"],
        details={
            "state": job["state"],
            "exit_code": job.get("exit_code"),
            **({"index": job["index"]} if "index" in job else {}),
        },
    )
    if last_lines:
        error.add_note("last lines of the job:\n" + "\n".join(f"  {line}" for line in last_lines))
    if reported.get("type"):
        error.__cause__ = cause_of(reported)
    return error


def failed_rank(job: Mapping[str, Any]) -> int | None:
    """The rank of a distributed job that failed first, if one did."""
    rank = ((job.get("result") or {}).get("error") or {}).get("rank")
    return rank if isinstance(rank, int) else None


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


def telling_line(lines: Sequence[str]) -> str:
    """The line of a log that says most about a failure: an exception with the place where it was
    raised, else the last line that says anything."""
    spoken = [line for line in lines if line.strip()]
    raised = next((n for n in range(len(spoken) - 1, -1, -1) if _RAISED.match(spoken[n])), None)
    if raised is None:
        return spoken[-1].strip() if spoken else ""
    frames = [match for line in spoken[:raised] if (match := _FRAME.match(line))]
    place = f"{frames[-1][1].rpartition('/')[2]}:{frames[-1][2]}  " if frames else ""
    return place + spoken[raised].strip()


def _who(job: Mapping[str, Any]) -> str:
    """An element of an array has the index that it has there."""
    return f"element {job['index']} of job {job['id']}" if "index" in job else f"job {job['id']}"


def _slug(job: Mapping[str, Any], reported: Mapping[str, Any]) -> str:
    said = reported.get("slug") or _SLUG_OF_STATE.get(job["state"])
    slug = said or _SLUG_OF_REASON.get(job["reason"], "job-failed")
    return slug if slug in SLUGS else "job-failed"


def _what(slug: str, job: Mapping[str, Any], reported: Mapping[str, Any]) -> str:
    message, where = str(job.get("message") or ""), _where(job)
    if reported.get("type") and slug == "job-failed":
        return f"raised {reported['type']}: {reported.get('message', '')}"
    if slug == "killed":
        return f"was ended by {_signal(job)} (exit code {job['exit_code']}){where}"
    if slug == "timeout":
        limit = (job.get("spec") or {}).get("timeout_seconds")
        of = f" of {duration_text(limit)}" if limit else ""
        return f"reached its time limit{of} and was ended{where}"
    if slug == "cancelled":
        return f"was cancelled{where}"
    if slug == "worker-lost":
        tries = f"attempt {job.get('attempt', 1)} of {job.get('max_attempts', 1)}"
        return f"was lost{where} ({tries}); whether its work was done is not known"
    if slug in _WANTS:
        return _WANTS[slug]
    if slug in ("not-joined", "port-taken"):
        return f"could not begin: {message}"
    if slug == "result-not-json":
        return f"returned what cannot travel: {message}"
    if job.get("reason") == "exited":
        return f"ended with exit code {job.get('exit_code')}{where}"
    if job.get("array"):
        return f"has failed: {message}"
    return f"could not run: {message}" if message else f"{job['state']}{where}"


def _why(
    slug: str, job: Mapping[str, Any], reported: Mapping[str, Any], lines: Sequence[str]
) -> str:
    if slug == "killed":
        if job["reason"] == "out_of_memory":
            return str(job["message"])
        return "GPUlayer did not send it, and found no evidence of who did"
    if slug == "worker-lost" or slug in _WANTS:
        return str(job.get("message") or "")
    if slug == "command-not-found":
        python = ((job.get("origin") or {}).get("interpreter") or {}).get("path")
        if python and str(job.get("message") or "").startswith(f"{python}:"):
            return "that Python has gone since; `uv run --with` removes its own when it ends"
        return "it is not on the PATH that the job saw; aliases and shell functions are no commands"
    if slug == "function-not-importable" and reported.get("type"):
        return telling_line([*str(reported.get("traceback", "")).splitlines()]) or str(
            reported.get("message", "")
        )
    if slug == "job-failed" and not reported.get("type"):
        return telling_line(lines)
    if slug == "result-not-json":
        return "the function ended well; its output files and logs are kept"
    return str(reported.get("why") or "")


def _where(job: Mapping[str, Any]) -> str:
    """` in rank 3 on lab-1 after 12 s`."""
    started, finished = job.get("started_at"), job.get("finished_at")
    rank = failed_rank(job)
    on = "" if rank is None else f" in rank {rank}"
    worker = job.get("worker")
    if rank is not None and job.get("nodes"):
        worker = job["nodes"][rank * len(job["nodes"]) // job["ranks"]]["worker"]
    on += f" on {worker}" if worker else ""
    return f"{on} after {duration_text(finished - started)}" if started and finished else on


def _signal(job: Mapping[str, Any]) -> str:
    number = int(job.get("exit_code") or 128) - 128
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
