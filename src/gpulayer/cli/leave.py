"""`gpulayer leave [NAME]`: no longer work for a server, or on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpulayer.cli import render
from gpulayer.cli.session import options
from gpulayer.errors import GPULayerError, NotFoundError, UsageError

if TYPE_CHECKING:
    from gpulayer.sdk.joined import Joined
    from gpulayer.sdk.servers import Servers


@click.command("leave")
@click.argument("name", required=False)
@options("at_once", "json", "quiet")
def command(name: str | None, at_once: bool, as_json: bool, quiet: bool) -> None:
    """Leave a server: as a worker, as a person who logged in, or as both.

    A worker gets no new jobs, waits until those that it has have ended, gives its session back
    and is gone from this machine. Ctrl-C while it waits keeps it as it was, without new jobs. NAME
    may be left out where there is only one.
    """
    from gpulayer.sdk.joined import Joined
    from gpulayer.sdk.places import Places
    from gpulayer.sdk.servers import Servers

    home = Places.find().home
    servers = Servers(home)
    joined = {one.name: one for one in Joined.all(home)}
    known = [*joined, *(n for n in servers.all() if n not in joined)]
    if name is None and len(known) == 1:
        name = known[0]
    if name is None and known:
        raise UsageError(
            "usage",
            f"leave which one? there are {', '.join(known)}",
            hint=f"gpulayer leave {known[0]}",
        )
    if name not in known or name is None:
        raise NotFoundError(
            "server-not-found",
            f"there is no server {name!r} to leave" if name else "there is no server to leave",
            why=f"there are {', '.join(known)}" if known else "",
            hint="gpulayer use",
        )
    left = []
    if name in joined:
        _leave_as_worker(joined[name], at_once, quiet)
        left.append("worker")
    if name in servers.all():
        _log_out(servers, name)
        left.append("person")
    if as_json:
        render.json_document({"left": {"server": name, "as": left}})
    elif not quiet:
        render.say(f"left {name}")


def _leave_as_worker(joined: Joined, at_once: bool, quiet: bool) -> None:
    from gpulayer.sdk import joining

    def waits(count: int) -> None:
        if not quiet:
            jobs = "1 job" if count == 1 else f"{count} jobs"
            render.say(f"waiting for {jobs} to end (gpulayer leave --now: do not wait)")

    facts = joined.facts()
    untold = joining.leave(joined, at_once=at_once, waits=waits)
    if untold and facts is not None:
        render.say(
            f"the server could not be told: {render.plain(untold)}; "
            f"there: gpulayer worker revoke {facts.name}"
        )


def _log_out(servers: Servers, name: str) -> None:
    """The token is given back where the server can be told, and forgotten here in any case."""
    from gpulayer.api import credentials

    try:
        server = servers.get(name)
        wire = server.wire()
        wire.call("DELETE", f"/v1/tokens/{credentials.read(server.token).presented.id}")
        wire.close()
    except GPULayerError as error:
        render.say(f"the server could not be told: {render.plain(error.message)}")
    servers.remove(name)
