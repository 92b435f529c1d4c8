"""`gpulayer cancel JOB...`: ask jobs to end."""

from __future__ import annotations

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, job_path, options


@click.command("cancel")
@click.argument("jobs", nargs=-1, required=True)
@click.option("--now", is_flag=True, help="Kill at once, without asking first.")
@options("json", "quiet")
def command(jobs: tuple[str, ...], now: bool, as_json: bool, quiet: bool) -> None:
    """End jobs: TERM first, KILL after ten seconds. Cancelling twice is the same as once."""
    wire = connect()
    body = {"mode": "kill" if now else "term"}
    asked = [wire.call("POST", job_path(job, "cancel"), body) for job in jobs]
    if as_json:
        render.json_document({"jobs": asked})
        return
    for job in asked:
        if quiet:
            render.data(job["id"])
        elif job["state"] in ("scheduled", "running"):
            render.say(f"{job['id']} is being ended")
        else:
            render.say(f"{job['id']} is {job['state']}")
