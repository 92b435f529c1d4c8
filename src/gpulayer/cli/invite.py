"""`gpulayer invite`: let another machine or person in."""

from __future__ import annotations

import click

from gpulayer.cli import render
from gpulayer.cli.flags import labels_from
from gpulayer.cli.session import connect, options
from gpulayer.contracts.durations import duration_text, parse_duration
from gpulayer.errors import UsageError


@click.command("invite")
@options("for_person", "role", "uses", "ttl", "label", "json", "quiet")
def command(
    for_person: bool,
    role: str | None,
    uses: int | None,
    ttl: str | None,
    label: tuple[str, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Print a line with which another machine can join this server; it works once, for 1 h.

    With --client it is for a person to log in with, as a submitter or as --role says. A worker
    gets the labels that are given here. Only an administrator can invite.
    """
    from gpulayer.api import credentials
    from gpulayer.clock import SystemIds
    from gpulayer.contracts.principals import CredentialKind

    wire = connect()
    front = wire.call("GET", "/v1/doctor").get("serves")
    if front is None:
        raise UsageError(
            "usage",
            "this plane serves no other machine, so nobody could come",
            hint="gpulayer serve --help",
        )
    code = credentials.make(CredentialKind.JOIN, SystemIds())
    wanted = (role or "submitter") if for_person or role else "worker"
    body = {
        "code": code.reveal(),
        "role": wanted,
        "uses": uses or 1,
        "labels": labels_from(label),
        **({"ttl_seconds": parse_duration(ttl, "--ttl")} if ttl else {}),
    }
    made = wire.call("POST", "/v1/invites", body)
    verb = "join" if wanted == "worker" else "login"
    line = f"gpulayer {verb} {credentials.link(front, code)}"
    if as_json:
        render.json_document({"invite": {**made, "line": line}})
        return
    if not quiet:
        times = "once" if made["uses_left"] == 1 else f"{made['uses_left']} times"
        lasts = duration_text(made["expires_at"] - made["created_at"])
        article = "an" if wanted[0] in "ao" else "a"
        render.say(f"for {article} {wanted}; works {times}, within {lasts}:")
    render.data(line)
