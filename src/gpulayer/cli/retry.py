"""`gpulayer retry JOB`: the same job again, as a new one."""

from __future__ import annotations

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, job_path, options


@click.command("retry")
@click.argument("job", default="last")
@options("json", "quiet")
def command(job: str, as_json: bool, quiet: bool) -> None:
    """Submit a job again as a new job. The old one stays as it is."""
    fresh = connect().call("POST", job_path(job, "retry"), {})
    if as_json:
        render.json_document({"job": fresh})
    else:
        render.data(fresh["id"])
        if not quiet:
            render.say(f"watch it: gpulayer logs -f {fresh['id']}")
