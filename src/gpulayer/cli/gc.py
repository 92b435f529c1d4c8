"""`gpulayer gc`: remove what no job needs."""

from __future__ import annotations

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.contracts.durations import parse_duration


@click.command("gc")
@options("older_than", "dry_run", "json", "quiet")
def command(older_than: str | None, dry_run: bool, as_json: bool, quiet: bool) -> None:
    """Remove old jobs with their logs, and artifacts that no job refers to.

    Old are jobs that ended more than 30 days ago, and all but the last 100,000.
    """
    body: dict[str, object] = {"dry_run": dry_run}
    if older_than is not None:
        body["older_than"] = parse_duration(older_than, "--older-than", zero=True)
    done = connect().call("POST", "/v1/gc", body)
    if as_json:
        render.json_document(done)
        return
    word = "would remove" if dry_run else "removed"
    if quiet:
        return
    render.say(
        f"{word} {done['jobs']} jobs, {done['artifacts']} artifacts, "
        f"{render.size(done['log_bytes'] + done['artifact_bytes'])} in all"
    )
