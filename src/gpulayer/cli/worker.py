"""`gpulayer worker`: give a worker no work, or work again; label it; send it away."""

from __future__ import annotations

from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.errors import UsageError

DONE = {
    "drain": "gets no new work; what it runs goes on",
    "resume": "gets work again",
    "label": "is labelled",
    "revoke": "was sent away; what it ran is lost",
}


@click.command("worker")
@click.argument("action", type=click.Choice(list(DONE)))
@click.argument("worker")
@click.argument("labels", nargs=-1, metavar="[K=V|K=]...")
@options("json", "quiet")
def command(action: str, worker: str, labels: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Drain a worker, resume it, label it, or revoke its right to be one.

    `label NAME rack=4 old=` sets one label and takes another away. `revoke` counts at once: what
    the worker runs is lost, and the machine ends it.
    """
    if (action == "label") is not bool(labels):
        raise UsageError(
            "usage",
            "`worker label` takes labels, the other actions none",
            hint="gpulayer worker --help",
        )
    body: dict[str, Any] = {"labels": dict(map(_pair, labels))} if labels else {}
    done = connect().call("POST", f"/v1/workers/{worker}/{action}", body)
    if as_json:
        render.json_document({"worker": done})
    elif not quiet:
        render.say(f"{done.get('name') or done.get('worker')} {DONE[action]}")


def _pair(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError("usage", f"{text!r} is not NAME=VALUE", hint="gpulayer worker --help")
    return name, value or None
