"""`gpulayer status JOB`: one job, with everything that is known about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.carry import left_words
from gpulayer.cli.outlook import when
from gpulayer.cli.session import connect, options
from gpulayer.cli.waiting import prepares
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import duration_text, preparation_text

_RANKS = 16
"""Of a node that failed, as many are shown."""


@click.command("status")
@click.argument("job", default="last")
@options("provenance", "json", "quiet")
def command(job: str, provenance: bool, as_json: bool, quiet: bool) -> None:
    """Show one job: an id, the beginning of one, a name, or `last`."""
    wire = connect()
    found = wire.call("GET", job_path(job))
    if provenance:
        _account(wire, found, as_json=as_json)
    elif as_json:
        render.json_document({"job": found})
    elif quiet:
        render.data(found["state"])
    else:
        for name, value in facts(found, SystemClock().now(), _start(wire, found)):
            render.data(f"{name + ':':<11} {render.plain(value)}")


def _start(wire: Wire, job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """When a job that waits may begin, as the plane tells it; nothing from an older one."""
    if job["state"] != "queued" or job["reason"] == "dependency":
        return None
    outlook = wire.call("GET", job_path(job["id"], "decision")).get("outlook")
    return outlook["start"] if outlook else None


def _account(wire: Wire, job: Mapping[str, Any], *, as_json: bool) -> None:
    from gpulayer.sdk.provenance import lines, provenance

    told = provenance(wire, job)
    if as_json:
        render.json_document({"provenance": told})
        return
    for name, value in lines(told):
        render.data(f"{name + ':':<12} {render.plain(value)}")


def facts(
    job: Mapping[str, Any], now: float, start: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, str]]:
    """Label and value, in the order in which a person asks. `start`: when it may begin."""
    origin = job.get("origin") or {}
    yield "job", job["id"]
    yield "state", _state(job)
    if job.get("decision_summary") and job["state"] == "queued":
        yield "waits", str(job["decision_summary"]).removeprefix("waits: ")
    if start is not None and (start["at"] is not None or start["because"]):
        yield "starts", when(start, now)
    yield from _elements(job)
    yield "what", origin.get("argv_text") or _workload(job["spec"])
    if origin.get("cwd"):
        yield "folder", origin["cwd"]
    if origin.get("interpreter"):
        python = origin["interpreter"]
        yield "python", f"{python.get('version') or '?'} ({python.get('path')})"
    for node in job.get("nodes") or ():
        held = ", ".join(node["gpus"])
        where = f"{node['worker']}, {node['state']}" + (f", GPU {held}" if held else "")
        yield f"node {node['node']}", where
    error = (job.get("result") or {}).get("error") or {}
    for rank in (error.get("ranks") or ())[:_RANKS]:
        yield f"rank {rank['rank']}", rank["message"]
    if job.get("worker") and not job.get("nodes"):
        held = ", ".join(job.get("gpus") or ())
        yield "worker", job["worker"] + (f", GPU {held}" if held else "")
    if job.get("attempt", 0) > 1:
        yield "attempt", str(job["attempt"])
    yield "submitted", render.moment(job["submitted_at"])
    started, finished = job.get("started_at"), job.get("finished_at")
    if job.get("preparation"):
        yield "prepared", preparation_text(job["preparation"])
    elif job["state"] == "scheduled" and (what := prepares(job.get("phase"))):
        yield "prepares", what
    if kept := job.get("checkpoint"):
        yield "checkpoint", _checkpoint(kept)
    if started:
        yield "started", f"{render.moment(started)}, ran {_ran(started, finished, now)}"
    if finished:
        yield "ended", render.moment(finished)
    for output in job.get("outputs") or ():
        yield "output", f"{output['path']} ({render.size(output['size'])})"
    if left := left_words(job):
        yield "left", left
    if job.get("retry_of"):
        yield "retry of", job["retry_of"]


def _state(job: Mapping[str, Any]) -> str:
    text = str(job["state"])
    if job.get("exit_code"):
        text += f", exit code {job['exit_code']}"
    message = str(job.get("message") or "")
    if message and message not in (job["state"], f"exit code {job.get('exit_code')}"):
        text += f": {message}"
    if silence := render.silence(job):
        text += f" ({silence})"
    if job.get("cancel_requested_at") and job["state"] in ("scheduled", "running"):
        text += " (being cancelled)"
    return text


def _elements(job: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    array = job.get("array")
    if not array:
        return
    words = ("succeeded", "failed", "timed_out", "cancelled", "running", "waiting")
    told = [f"{array[word]} {word.replace('_', ' ')}" for word in words if array[word]]
    yield "elements", f"{array['elements']}: {', '.join(told)}"
    if bad := array.get("failed_indices"):
        more = ", ..." if array["failed"] + array["timed_out"] > len(bad) else ""
        yield "failed", ", ".join(map(str, bad)) + more


def _checkpoint(kept: Mapping[str, Any]) -> str:
    count = kept["files"]
    whose = f"attempt {kept['attempt']}" if kept["attempt"] else "the job before"
    files = f"{count} file{'s' * (count != 1)}, {render.size(kept['size'])}"
    return f"{render.moment(kept['at'])}, {files}, of {whose}"


def _workload(spec: Mapping[str, Any]) -> str:
    workload = spec["workload"]
    if workload["kind"] == "command":
        return " ".join(workload["command"])
    return str(workload.get("entrypoint") or workload.get("function") or "")


def _ran(started: float, finished: float | None, now: float) -> str:
    return duration_text((finished or now) - started)
