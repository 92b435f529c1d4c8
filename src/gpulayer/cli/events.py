"""`gpulayer events JOB`: a job's story, one numbered line per change."""

from __future__ import annotations

import sys

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.cli.wait import leave

PARK_SECONDS = 25.0


@click.command("events")
@click.argument("job", default="last")
@options("follow", "json", "quiet")
def command(job: str, follow: bool, as_json: bool, quiet: bool) -> None:
    """Tell a job's story; with -f until it ends. -q prints the kinds of events alone."""
    wire = connect()
    job_id = wire.call("GET", job_path(job))["id"]
    after, ended, shown = 0, False, []
    try:
        while True:
            park = PARK_SECONDS if follow and not ended else 0.0
            reply = wire.call("GET", job_path(job_id, "events", after=after, wait=park), park=park)
            for event in reply["events"]:
                after = event["seq"]
                shown.append(event)
                if quiet:
                    render.data(event["kind"])
                elif not as_json:
                    text = f"{event['kind']:<12} {event['message'] or event['reason']}"
                    render.data(f"{render.moment(event['at'])}  {render.plain(text)}")
            sys.stdout.flush()
            if not follow or ended:
                break
            ended = bool(reply.get("ended"))
    except KeyboardInterrupt:
        leave(job_id)
    if as_json:
        render.json_document({"job": job_id, "events": shown})
