"""`gpulayer login gl://...`: work on a server from here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from gpulayer.cli import render
from gpulayer.cli.session import options
from gpulayer.errors import GPULayerError, RefusedError

if TYPE_CHECKING:
    from gpulayer.api.endpoints import Far
    from gpulayer.sdk.servers import Servers


@click.command("login")
@click.argument("line", metavar="gl://...")
@options("login_name", "json", "quiet")
def command(line: str, login_name: str | None, as_json: bool, quiet: bool) -> None:
    """Log in to a server with the line that `gpulayer invite --client` printed there.

    From then on all verbs and programs mean that server; `gpulayer use local` goes back. A token
    of your own is made and kept, readable by you alone. The same line again changes nothing.
    """
    from gpulayer.api.endpoints import parse
    from gpulayer.contracts.principals import CredentialKind
    from gpulayer.sdk import enrolment
    from gpulayer.sdk.origin import user_name
    from gpulayer.sdk.places import Places
    from gpulayer.sdk.servers import Servers, read_token, require_name, write_private

    if login_name is not None:
        require_name(login_name)
    address = parse(line)
    code = enrolment.code_of(address, "login")
    servers = Servers(Places.find().home)
    done = servers.token_file(f".{enrolment.invite_of(code)}")
    try:
        secret = read_token(done)
    except GPULayerError:
        secret = enrolment.new_secret(CredentialKind.CLIENT)
        write_private(done, secret)
    try:
        made = enrolment.enrol(address.endpoint, code, secret, _myself(user_name()))
    except RefusedError:
        os.unlink(done)
        raise
    chosen = login_name or _name_for(address.endpoint, secret, servers)
    servers.add(chosen, address.endpoint, secret)
    if as_json:
        render.json_document({"server": {"name": chosen, "role": made["role"]}})
    elif not quiet:
        role = str(made["role"])
        article = "an" if role[0] in "ao" else "a"
        render.say(f"logged in to {chosen} as {article} {role}; all verbs mean it from now on")
        render.say("back to this machine alone: gpulayer use local")


def _myself(user: str) -> str:
    """What the server's list of tokens says of this one."""
    host = os.uname().nodename.partition(".")[0]
    text = f"{user}-{host}"
    return "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in text)[:63]


def _name_for(endpoint: Far, secret: str, servers: Servers) -> str:
    """What the server calls itself; with its port where another server has that name."""
    from gpulayer.sdk.servers import Server, is_name

    wire = Server("", endpoint, secret).wire()
    try:
        said = str((wire.call("GET", "/v1/doctor").get("serves") or {}).get("name") or "")
    finally:
        wire.close()
    name = said if is_name(said) else endpoint.name.replace(":", "-")
    known = servers.all()
    if known.get(name, endpoint.url) != endpoint.url:
        name = f"{name}-{endpoint.port}"
    return name
