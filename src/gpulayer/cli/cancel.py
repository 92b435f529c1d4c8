"""`gpulayer cancel JOB...`: ask jobs to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.errors import RefusedError, UsageError

MANY = 4
"""From so many on, one list is asked for rather than each job."""
LISTED = 10_000


@click.command("cancel")
@click.argument("jobs", nargs=-1)
@options("every", "now", "json", "quiet")
def command(jobs: tuple[str, ...], every: bool, now: bool, as_json: bool, quiet: bool) -> None:
    """End jobs: TERM first, KILL after ten seconds. Cancelling twice is the same as once."""
    if every == bool(jobs):
        raise UsageError("usage", "name the jobs, or say --all", hint="gpulayer cancel last")
    wire = connect()
    found = _unfinished(wire) if every else _named(wire, jobs)
    body = {"mode": "kill" if now else "term"}
    asked = []
    for before in found:
        try:
            asked.append((before, wire.call("POST", job_path(before["id"], "cancel"), body)))
        except RefusedError as error:
            if not every or error.code != "not-allowed":
                raise  # of all jobs, those of others stay
    if as_json:
        render.json_document({"jobs": [job for _, job in asked]})
        return
    for before, job in asked:
        if quiet:
            render.data(job["id"])
        elif before["finished_at"] is not None:
            render.say(f"{job['id']} had ended already: {before['state']}")
        elif job["finished_at"] is None:
            render.say(f"{job['id']} is being ended")
        else:
            render.say(f"{job['id']} is {job['state']}")
    if every and not asked and not quiet:
        render.say("no jobs are waiting or running")


def _unfinished(wire: Wire) -> list[dict[str, Any]]:
    """Those that wait come first, so that no end lets one of them begin."""
    found: list[dict[str, Any]] = wire.call("GET", f"/v1/jobs?limit={LISTED}")["jobs"]
    return sorted(found, key=lambda job: job["started_at"] is not None)


def _named(wire: Wire, selectors: Sequence[str]) -> list[dict[str, Any]]:
    """All are known before one is ended."""
    listed = _unfinished(wire) if len(selectors) >= MANY else []
    known = {job["id"]: job for job in listed}
    return [known.get(selector) or wire.call("GET", job_path(selector)) for selector in selectors]
