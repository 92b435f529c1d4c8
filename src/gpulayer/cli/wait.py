"""`gpulayer wait JOB...`: stay until jobs have ended."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.outcome import exit_code, explained, line
from gpulayer.cli.session import connect, options
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import parse_duration
from gpulayer.errors import JobTimedOutError

PARK_SECONDS = 25.0
INTERRUPTED = 130


@click.command("wait")
@click.argument("jobs", nargs=-1)
@options("wait_for", "json", "quiet")
def command(jobs: tuple[str, ...], timeout: str | None, as_json: bool, quiet: bool) -> int:
    """Wait for jobs to end. The exit code is the job's own; of several, 1 if any failed."""
    limit = parse_duration(timeout) if timeout else None
    wire = connect()
    clock = SystemClock()
    end = None if limit is None else clock.monotonic() + limit
    asked = [wire.call("GET", job_path(job)) for job in jobs or ("last",)]
    ended = [until_finished(wire, job, end) for job in asked]
    if as_json:
        render.json_document({"jobs": ended})
    elif not quiet:
        for job in ended:
            if job["state"] == "succeeded":
                render.say(line(job))
            else:
                render.error(explained(wire, job))
    codes = [exit_code(job) for job in ended]
    return codes[0] if len(codes) == 1 else int(any(codes))


def until_finished(
    wire: Wire, job: Mapping[str, Any], end: float | None = None
) -> Mapping[str, Any]:
    """The job once it has ended; `end` is monotonic time. Leaving early never ends the job."""
    clock = SystemClock()
    try:
        while job["finished_at"] is None:
            left = PARK_SECONDS if end is None else end - clock.monotonic()
            if left <= 0:
                raise JobTimedOutError(
                    "timeout",
                    f"{job['id']} has not ended in the time that was to be waited; it goes on",
                    hint=f"gpulayer wait {job['id']}",
                    job_id=job["id"],
                )
            park = min(PARK_SECONDS, left)
            path = job_path(job["id"], wait=park, until="finished")
            job = wire.call("GET", path, park=park)
    except KeyboardInterrupt:
        leave(job["id"])
    return job


def leave(job_id: str) -> None:
    """Say that the job goes on, and end as interrupted."""
    render.say(f"{job_id} goes on; end it: gpulayer cancel {job_id}")
    sys.exit(INTERRUPTED)
