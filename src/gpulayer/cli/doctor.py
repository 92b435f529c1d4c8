"""`gpulayer doctor`: what is installed, what runs, what is odd. It starts and changes nothing."""

from __future__ import annotations

from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import options

FACTS = (
    "version", "python", "sqlite", "home", "runtime", "containment", "plane", "serves", "server",
    "worker of", "torch",
)  # fmt: skip


@click.command("doctor")
@options("json", "quiet")
def command(as_json: bool, quiet: bool) -> None:
    """Check this installation and list its processes. Starts nothing, changes nothing.

    With -q only what is odd is printed.
    """
    from gpulayer.cli.checkup import look
    from gpulayer.sdk.places import Places

    found = look(Places.find())
    if as_json:
        render.json_document(found)
        return
    if not quiet:
        _show(found)
    for note in found["notes"]:
        render.data(f"note: {render.plain(note)}")


def _show(found: dict[str, Any]) -> None:
    for name in (fact for fact in FACTS if fact in found):
        render.data(f"{name + ':':<13}{render.plain(found[name])}")
    if found["processes"]:
        rows = [(p["kind"], str(p["pid"]), p.get("note", "")) for p in found["processes"]]
        render.table(("PROCESS", "PID", "NOTE"), rows)
