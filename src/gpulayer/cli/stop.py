"""`gpulayer stop`: end the local plane and all that belongs to it."""

from __future__ import annotations

import click

from gpulayer.cli import render
from gpulayer.cli.session import options


@click.command("stop")
@options("force", "json", "quiet")
def command(force: bool, as_json: bool, quiet: bool) -> None:
    """End the local plane. With jobs still running it refuses, unless --force cancels them."""
    from gpulayer.sdk.local import stop
    from gpulayer.sdk.places import Places

    was_running = stop(Places.find(), force=force)
    if as_json:
        render.json_document({"stopped": was_running})
    elif not quiet:
        render.say("stopped" if was_running else "nothing was running")
