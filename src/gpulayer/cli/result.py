"""`gpulayer result JOB`: what a function returned, as JSON."""

from __future__ import annotations

import json

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, job_path, options
from gpulayer.errors import RefusedError


@click.command("result")
@click.argument("job", default="last")
@options("json")
def command(job: str, as_json: bool) -> None:
    """Print what a function returned, as JSON."""
    found = connect().call("GET", job_path(job))
    result = found.get("result")
    if result is None:
        raise RefusedError(
            "job-not-finished",
            f"{found['id']} is {found['state']}",
            hint=f"gpulayer wait {found['id']}",
        )
    if as_json:
        render.json_document({"job": found["id"], "result": result})
    elif "value" in result:
        render.data(json.dumps(result["value"], indent=2))
    else:
        raise RefusedError(
            "no-result",
            f"{found['id']} {found['state']} and returned no value",
            hint=f"gpulayer logs {found['id']}",
        )
