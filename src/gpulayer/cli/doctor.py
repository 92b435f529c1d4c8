"""`gpulayer doctor`: what is installed, what runs, what is odd; it changes nothing."""

from __future__ import annotations

import platform
from typing import Any

import click

from gpulayer import _version
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.cli.session import options
from gpulayer.errors import GPULayerError


@click.command("doctor")
@options("json")
def command(as_json: bool) -> None:
    """Check this installation and list its processes. Starts nothing."""
    from gpulayer.sdk.places import Places

    places = Places.find()
    body: dict[str, Any] = {
        "version": _version.__version__,
        "python": platform.python_version(),
        "home": places.home,
        "runtime": places.runtime,
        "processes": [],
        "notes": [],
    }
    try:
        body |= Wire(places.plane_socket, tries=1).call("GET", "/v1/doctor")
    except GPULayerError as error:
        body["notes"].append(f"no plane: {error.why or error.message}")
    if as_json:
        render.json_document(body)
        return
    for name in ("version", "python", "home", "runtime"):
        render.data(f"{name + ':':<10} {render.plain(body[name])}")
    if body["processes"]:
        rows = [(p["kind"], str(p["pid"]), p.get("note", "")) for p in body["processes"]]
        render.table(("PROCESS", "PID", "NOTE"), rows)
    for note in body["notes"]:
        render.data(f"note: {render.plain(note)}")
