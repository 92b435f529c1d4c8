"""`gpulayer cancel JOB...`: ask jobs to end."""

from __future__ import annotations

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.session import connect, options


@click.command("cancel")
@click.argument("jobs", nargs=-1, required=True)
@options("now", "json", "quiet")
def command(jobs: tuple[str, ...], now: bool, as_json: bool, quiet: bool) -> None:
    """End jobs: TERM first, KILL after ten seconds. Cancelling twice is the same as once."""
    wire = connect()
    found = [wire.call("GET", job_path(job)) for job in jobs]  # all are known before one is ended
    body = {"mode": "kill" if now else "term"}
    asked = [wire.call("POST", job_path(job["id"], "cancel"), body) for job in found]
    if as_json:
        render.json_document({"jobs": asked})
        return
    for before, job in zip(found, asked, strict=True):
        if quiet:
            render.data(job["id"])
        elif before["finished_at"] is not None:
            render.say(f"{job['id']} had ended already: {before['state']}")
        elif job["finished_at"] is None:
            render.say(f"{job['id']} is being ended")
        else:
            render.say(f"{job['id']} is {job['state']}")
