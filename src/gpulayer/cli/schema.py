"""`gpulayer schema [PART]`: the JSON Schema of a job file."""

from __future__ import annotations

import json
from importlib import resources

import click

from gpulayer.cli import render
from gpulayer.errors import NotFoundError


@click.command("schema")
@click.argument("part", required=False)
def command(part: str | None) -> None:
    """Print the JSON Schema of a job, or of one part of it: resources, placement, workload, ..."""
    text = resources.files("gpulayer.contracts").joinpath("jobspec.schema.json").read_text()
    schema = json.loads(text)
    if part is not None:
        schema = _part(schema, part)
    render.data(json.dumps(schema, indent=2))


def _part(schema: dict[str, object], name: str) -> object:
    properties = schema["properties"]
    definitions = schema["$defs"]
    assert isinstance(properties, dict)
    assert isinstance(definitions, dict)
    found = properties.get(name) or definitions.get(name)
    if found is None:
        raise NotFoundError(
            "topic-not-found",
            f"a job has no part '{name}'",
            why=f"parts are: {', '.join(properties)}",
            hint="gpulayer schema",
        )
    reference = found.get("$ref") if isinstance(found, dict) else None
    return definitions[reference.rsplit("/", 1)[-1]] if reference else found
