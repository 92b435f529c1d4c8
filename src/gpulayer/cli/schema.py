"""`gpulayer schema [PART]`: the JSON Schema of a job file."""

from __future__ import annotations

import difflib
import json
from importlib import resources

import click

from gpulayer.cli import render
from gpulayer.cli.session import options
from gpulayer.errors import NotFoundError


@click.command("schema")
@click.argument("part", required=False)
@options("json", "quiet")
def command(part: str | None, as_json: bool, quiet: bool) -> None:
    """Print the JSON Schema of a job, or of one part of it: resources, placement, workload, ...

    It is JSON with or without --json; with -q on one line.
    """
    text = resources.files("gpulayer.contracts").joinpath("jobspec.schema.json").read_text()
    schema = json.loads(text)
    if part is not None:
        schema = _part(schema, part)
    render.data(json.dumps(schema, indent=None if quiet else 2))


def _part(schema: dict[str, object], name: str) -> object:
    properties = schema["properties"]
    definitions = schema["$defs"]
    assert isinstance(properties, dict)
    assert isinstance(definitions, dict)
    found = properties.get(name) or definitions.get(name)
    if found is None:
        near = difflib.get_close_matches(name, [*properties, *definitions], n=1)
        raise NotFoundError(
            "topic-not-found",
            f"a job has no part '{name}'",
            why=f"parts are: {', '.join(properties)}",
            hint=f"gpulayer schema {near[0]}" if near else "gpulayer schema",
        )
    reference = found.get("$ref") if isinstance(found, dict) else None
    return definitions[reference.rsplit("/", 1)[-1]] if reference else found
