"""What a job's end means: its exit code for the shell, its line or its error for people."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.contracts.durations import duration_text
from gpulayer.errors import GPULayerError, SchedulingError
from gpulayer.slugs import SLUGS

LOOKED_THROUGH = 4 << 20
"""Bytes of log that are read for its telling line; a longer log is left alone."""
LAST_LINES = 40

_ENDED = {
    "succeeded": "has succeeded",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "timed_out": "has timed out",
}
_BY_REASON = {
    "not_found": 127,
    "not_executable": 126,
    "preparation": 126,
    "secret_missing": 126,
    "folder_gone": 126,
}


def exit_code(job: Mapping[str, Any]) -> int:
    """The workload's own code; 124, 125, 126, 127 and 130 as `gpulayer help exit-codes` says."""
    state, reason, code = job["state"], job["reason"], job.get("exit_code")
    if state == "succeeded":
        return 0
    if state == "timed_out":
        return SLUGS["timeout"].run_exit
    if reason in _BY_REASON:
        return _BY_REASON[reason]
    if state == "cancelled":
        return int(code) if code else 130
    return int(code) if code else 125


def state_words(job: Mapping[str, Any]) -> str:
    """`is running`, `has failed`: how the state goes on from the job's name."""
    return _ENDED.get(job["state"], f"is {job['state']}")


def line(job: Mapping[str, Any]) -> str:
    """`train-7f3ak2mq failed in 12 s, exit code 1`."""
    started, finished = job.get("started_at"), job.get("finished_at")
    text = f"{job['id']} {job['state'].replace('_', ' ')}"
    if started and finished:
        text += f" in {duration_text(finished - started)}"
    if job.get("exit_code"):
        text += f", exit code {job['exit_code']}"
    message = str(job.get("message") or "")
    said = ("", job["state"], f"exit code {job.get('exit_code')}")
    if job["state"] != "succeeded" and message not in said:
        text += f": {message}"
    return render.plain(text)


def explained(wire: Wire, job: Mapping[str, Any]) -> GPULayerError:
    """The error for a job that ended badly, with what its log or its decision adds."""
    from gpulayer.sdk.failures import failed_rank, failure_of

    rank = failed_rank(job)
    lines = _last_lines(wire, job["id"], rank) if job["reason"] == "exited" else ()
    error = failure_of(job, tuple(lines))
    if isinstance(error, SchedulingError):
        _add_decision(error, wire, job)
    return error


def _last_lines(wire: Wire, job_id: str, rank: int | None) -> deque[str]:
    from gpulayer.sdk import log_lines

    def bounded() -> Iterator[Any]:
        size = 0
        for record in log_lines.records(wire, job_id):
            size += len(record.data)
            if size > LOOKED_THROUGH:
                return
            if rank in (None, record.rank):
                yield record

    return deque(log_lines.lines(bounded()), LAST_LINES)


def _add_decision(error: GPULayerError, wire: Wire, job: Mapping[str, Any]) -> None:
    """Each worker's failing checks, the closest first, and the job without those wishes."""
    from gpulayer.sdk.mending import allowing, without_checks

    verdicts = wire.call("GET", job_path(job["id"], "decision")).get("verdicts") or ()
    rows = [(v, [c for c in v["checks"] if c["fit"] != "yes"]) for v in verdicts]
    error.why = "\n".join(
        f"{verdict['worker_name']}: needs {check['need']}, has {check['have']}"
        for verdict, failing in rows
        for check in failing
    )
    if rows:
        verdict, failing = rows[0]
        mend = without_checks(job["spec"], [check["name"] for check in failing])
        mend = mend or allowing(verdict["worker_id"], failing)
        if mend and mend not in error.help:
            error.help = (mend, *error.help)
