"""`gpulayer events JOB`: a job's story, one numbered line per change."""

from __future__ import annotations

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, job_path, options

PARK_SECONDS = 25.0


@click.command("events")
@click.argument("job", default="last")
@options("follow", "json")
def command(job: str, follow: bool, as_json: bool) -> None:
    """Tell a job's story; with -f until it ends."""
    wire = connect()
    after, ended, shown = 0, False, []
    while True:
        park = PARK_SECONDS if follow and not ended else 0.0
        reply = wire.call("GET", job_path(job, "events", after=after, wait=park), park=park)
        for event in reply["events"]:
            after = event["seq"]
            shown.append(event)
            if not as_json:
                text = f"{event['kind']:<12} {event['message'] or event['reason']}"
                render.data(f"{render.moment(event['at'])}  {render.plain(text)}")
        if not follow or ended:
            break
        ended = bool(reply.get("ended"))
    if as_json:
        render.json_document({"events": shown})
