"""`gpulayer wait JOB...`: stay until jobs have ended."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.outcome import exit_code, line
from gpulayer.cli.session import connect, job_path, options
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import parse_duration
from gpulayer.errors import JobTimedOutError

PARK_SECONDS = 25.0


@click.command("wait")
@click.argument("jobs", nargs=-1)
@options("json", "quiet")
@click.option("--timeout", metavar="TIME", help="Stop waiting after this long; the jobs go on.")
def command(jobs: tuple[str, ...], as_json: bool, quiet: bool, timeout: str | None) -> int:
    """Wait for jobs to end. The exit code is the job's own; of several, 1 if any failed."""
    limit = parse_duration(timeout) if timeout else None
    wire = connect()
    ended = [until_finished(wire, job, limit) for job in jobs or ("last",)]
    if as_json:
        render.json_document({"jobs": ended})
    elif not quiet:
        for job in ended:
            render.say(line(job))
    codes = [exit_code(job) for job in ended]
    return codes[0] if len(codes) == 1 else int(any(codes))


def until_finished(wire: Wire, selector: str, seconds: float | None = None) -> Mapping[str, Any]:
    """The job once it has ended. Leaving early never ends the job."""
    clock = SystemClock()
    end = None if seconds is None else clock.monotonic() + seconds
    try:
        while True:
            park = PARK_SECONDS if end is None else min(PARK_SECONDS, end - clock.monotonic())
            path = job_path(selector, wait=max(park, 0.0), until="finished")
            job: Mapping[str, Any] = wire.call("GET", path, park=max(park, 0.0))
            if job["finished_at"] is not None:
                return job
            selector = job["id"]
            if end is not None and clock.monotonic() >= end:
                raise JobTimedOutError(
                    "timeout",
                    f"{job['id']} has not ended within {render.duration(seconds)}; it goes on",
                    hint=f"gpulayer wait {job['id']}",
                    job_id=job["id"],
                )
    except KeyboardInterrupt:
        render.say(f"{selector} goes on; end it: gpulayer cancel {selector}")
        sys.exit(130)
