"""`gpulayer diff JOB JOB`: what differs between two jobs."""

from __future__ import annotations

from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.session import connect, options


@click.command("diff")
@click.argument("before")
@click.argument("after", default="last")
@options("json", "quiet")
def command(before: str, after: str, as_json: bool, quiet: bool) -> None:
    """Say what differs between two jobs: what was asked, code, packages, machine, result.

    With -q only the names of what differs. What cannot be compared any more is said.
    """
    from gpulayer.sdk.comparing import compared

    wire = connect()
    one, other = (wire.call("GET", job_path(job)) for job in (before, after))
    found = compared(wire, one, other)
    if as_json:
        render.json_document({"before": one["id"], "after": other["id"], **found.to_json()})
        return
    part = ""
    for difference in found.differences:
        name = render.plain(difference.name)
        if quiet:
            render.data(f"{difference.part}: {name}")
            continue
        if difference.part != part:
            part = difference.part
            render.data(f"{part}:")
        render.data(f"  {name}: {_word(difference.before)} -> {_word(difference.after)}")
        for line in difference.lines:
            render.data(f"    {render.plain(line)}")
    for sentence in found.unknown:
        render.say(f"not compared: {render.plain(sentence)}")
    if not found.differences and not quiet:
        render.data("no difference" + (" in what can be compared" if found.unknown else ""))


def _word(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return render.plain(" ".join(value))
    return render.plain(value)
