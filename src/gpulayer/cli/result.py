"""`gpulayer result JOB`: what a function returned, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.outcome import state_words
from gpulayer.cli.session import connect, options
from gpulayer.errors import RefusedError


@click.command("result")
@click.argument("job", default="last")
@options("json", "quiet")
def command(job: str, as_json: bool, quiet: bool) -> None:
    """Print what a function returned, as JSON; with -q on one line.

    Of an array one line of JSON for each element that has ended, by index.
    """
    wire = connect()
    found = wire.call("GET", job_path(job))
    if found.get("array"):
        ended = _elements(wire, found["id"])
        if as_json:
            render.json_document({"job": found["id"], "elements": list(ended)})
            return
        for element in ended:
            render.data(json.dumps(element))
        return
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
        error = result.get("error") or {}
        raised = ": ".join(error[key] for key in ("type", "message") if error.get(key))
        raise RefusedError(
            "no-result",
            f"{found['id']} {state_words(found)} and returned no value",
            why=raised,
            hint=f"gpulayer logs {found['id']}",
        )


def _elements(wire: Wire, job_id: str) -> Iterator[dict[str, Any]]:
    """Index, state, attempt, exit code, and value or error."""
    query: dict[str, Any] = {}
    while query.get("after", 0) is not None:
        page = wire.call("GET", job_path(job_id, "elements", **query))
        for element in page["elements"]:
            if "result" in element:
                yield {"index": element["index"], "attempt": element["attempt"]} | element["result"]
        query = {"after": page["next"]}
