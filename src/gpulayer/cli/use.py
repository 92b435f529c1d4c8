"""`gpulayer use [NAME]`: choose the server that verbs and programs mean from now on."""

from __future__ import annotations

import click

from gpulayer.cli import render
from gpulayer.cli.session import options


@click.command("use")
@click.argument("name", required=False)
@options("json", "quiet")
def command(name: str | None, as_json: bool, quiet: bool) -> None:
    """Choose a server that you have logged in to, or `local` for this machine's own plane.

    Without NAME the known ones are listed. GPULAYER_URL comes before this choice.
    """
    from gpulayer.sdk.places import Places
    from gpulayer.sdk.servers import LOCAL, Servers

    servers = Servers(Places.find().home)
    if name is not None:
        servers.use(name)
    current = servers.current() or LOCAL
    known = {LOCAL: "this machine", **servers.all()}
    if as_json:
        found = [{"name": n, "url": u, "current": n == current} for n, u in known.items()]
        render.json_document({"servers": found})
    elif name is not None:
        if not quiet:
            render.say(f"from now on: {current}, {known[current]}")
    elif quiet:
        render.data(current)
    else:
        rows = [("*" if n == current else "", n, u) for n, u in known.items()]
        render.table(("", "NAME", "WHERE"), rows)
