"""`gpulayer ps`: the jobs that wait or run; with -a all of them, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import duration_text
from gpulayer.errors import UsageError

HEADERS = ("JOB", "STATE", "AGE", "WORKER", "GPU", "QUEUED", "RUN", "EXIT", "REASON")


@click.command("ps")
@options("all", "limit", "json", "quiet")
def command(everything: bool, limit: int | None, as_json: bool, quiet: bool) -> None:
    """List jobs that are waiting or running; with -a also those that have ended."""
    if limit is not None and limit < 1:
        raise UsageError("usage", "--limit counts jobs: 1 or more", hint="--limit 20")
    query = f"/v1/jobs?all={int(everything)}&limit={limit or (100 if everything else 10_000)}"
    wire = connect()
    jobs = wire.call("GET", query)["jobs"]
    if as_json:
        render.json_document({"jobs": jobs})
    elif quiet:
        for job in jobs:
            render.data(job["id"])
    elif jobs:
        now = SystemClock().now()
        numbers = gpu_numbers(wire, jobs)
        render.table(HEADERS, [row(job, now, numbers) for job in jobs])
    else:
        render.say("no jobs" if everything else "no jobs are waiting or running; all: ps -a")


def gpu_numbers(wire: Wire, jobs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The number of each GPU on its worker, by UUID. Asked for only where a job has one."""
    if not any(job.get("gpus") for job in jobs):
        return {}
    workers = wire.call("GET", "/v1/workers")["workers"]
    found = (gpu for worker in workers for gpu in worker["capabilities"].get("gpus") or ())
    return {gpu["uuid"]: str(gpu["index"]) for gpu in found}


def row(job: Mapping[str, Any], now: float, numbers: Mapping[str, str] = {}) -> tuple[str, ...]:
    """One line of the table. Times are measured to `now` for what goes on still."""
    started, finished = job.get("started_at"), job.get("finished_at")
    queued = (started or finished or now) - job["submitted_at"]
    run = (finished or now) - started if started else None
    code = job.get("exit_code")
    return (
        job["id"],
        job["state"] + ended_of(job),
        duration_text(now - job["submitted_at"]),
        job.get("worker") or "-",
        ",".join(numbers.get(uuid, uuid) for uuid in job.get("gpus") or ()) or "-",
        duration_text(queued),
        duration_text(run),
        "-" if code is None else str(code),
        reason(job),
    )


def ended_of(job: Mapping[str, Any]) -> str:
    """` 7/10` of an array that has not: how many of its elements have ended."""
    array = job.get("array")
    if not array or job["finished_at"] is not None:
        return ""
    left = array["waiting"] + array["running"]
    return f" {array['elements'] - left}/{array['elements']}"


def reason(job: Mapping[str, Any]) -> str:
    """Why it is not simply running or done, in one line."""
    if job["state"] == "queued":
        return str(job.get("decision_summary") or job.get("message") or "")
    if job["state"] in ("succeeded", "running"):
        return render.silence(job)
    return str(job.get("message") or job.get("reason") or "")
