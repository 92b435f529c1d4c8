"""`gpulayer result JOB`: what a function returned, as JSON."""

from __future__ import annotations

import json

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.outcome import state_words
from gpulayer.cli.session import connect, options
from gpulayer.errors import RefusedError


@click.command("result")
@click.argument("job", default="last")
@options("json", "quiet")
def command(job: str, as_json: bool, quiet: bool) -> None:
    """Print what a function returned, as JSON; with -q on one line."""
    found = connect().call("GET", job_path(job))
    result = found.get("result")
    if found["finished_at"] is None or result is None:
        raise RefusedError(
            "job-not-finished",
            f"{found['id']} {state_words(found)}",
            hint=f"gpulayer wait {found['id']}",
        )
    if as_json:
        render.json_document({"job": found["id"], "result": result})
    elif "value" in result:
        render.data(json.dumps(result["value"], indent=None if quiet else 2))
    else:
        raise RefusedError(
            "no-result",
            f"{found['id']} {state_words(found)} and returned no value",
            hint=f"gpulayer logs {found['id']}",
        )
