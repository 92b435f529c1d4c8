"""`gpulayer gc`: remove what no job needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.contracts.durations import parse_duration

_SHOWN = 20


@click.command("gc")
@options("older_than", "dry_run", "json", "quiet")
def command(older_than: str | None, dry_run: bool, as_json: bool, quiet: bool) -> None:
    """Remove old jobs with their logs, logs past their limit, artifacts that no job refers to.

    Old are jobs that ended more than 30 days ago, and all but the last 100,000. A plane that runs
    does the same by itself, and leaves artifacts without a job for a week.
    """
    body: dict[str, object] = {"dry_run": dry_run}
    if older_than is not None:
        body["older_than"] = parse_duration(older_than, "--older-than", zero=True)
    done = connect().call("POST", "/v1/gc", body)
    if as_json:
        render.json_document(done)
        return
    if quiet:
        return
    if dry_run and done["items"]:
        render.table(("WHAT", "NAME", "SIZE", "WHY"), _rows(done["items"][:_SHOWN]))
    word = "would remove" if dry_run else "removed"
    render.say(f"{word} {', '.join(_counts(done))}; {render.size(_bytes(done))} in all")


def _rows(items: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    for item in items:
        name = item["name"][:12] if item["kind"] == "artifact" else item["name"]
        yield item["kind"], name, render.size(item["bytes"]), item["why"]


def _counts(done: Mapping[str, Any]) -> Iterator[str]:
    yield f"{done['jobs']} jobs"
    if done["logs"]:
        yield f"the logs of {done['logs']} more"
    yield f"{done['artifacts']} artifacts"
    if done["remains"]:
        yield f"{done['remains']} remains"


def _bytes(done: Mapping[str, Any]) -> int:
    return int(done["log_bytes"] + done["artifact_bytes"] + done["remains_bytes"])
