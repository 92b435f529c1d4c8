"""What a job's end means: its exit code for the shell, its one line for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayer.cli import render
from gpulayer.errors import SLUGS

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


def line(job: Mapping[str, Any]) -> str:
    """`train-7f3ak2mq failed in 12 s, exit code 1: ...`."""
    started, finished = job.get("started_at"), job.get("finished_at")
    text = f"{job['id']} {job['state'].replace('_', ' ')}"
    if started and finished:
        text += f" in {render.duration(finished - started)}"
    if job.get("exit_code"):
        text += f", exit code {job['exit_code']}"
    if job["state"] != "succeeded" and job.get("message"):
        text += f": {job['message']}"
    return render.plain(text)
