"""`gpulayer token`: who may use this server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import duration_text, parse_duration
from gpulayer.errors import UsageError

HEADERS = ("ID", "KIND", "ROLE", "NAME", "STATE", "USED")


@click.command("token")
@click.argument("action", type=click.Choice(["create", "ls", "revoke"]))
@click.argument("ids", nargs=-1, metavar="[ID]...")
@options("role", "token_name", "ttl", "no_expiry", "all", "json", "quiet")
def command(
    action: str,
    ids: tuple[str, ...],
    role: str | None,
    token_name: str | None,
    ttl: str | None,
    no_expiry: bool,
    everything: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Create a token, list tokens, or revoke some by their ids.

    `create` prints it once: it is not kept anywhere. `ls` lists persons' tokens, workers' sessions
    and codes that are still good, with -a also those that are not. `revoke` counts at once.
    """
    if action == "revoke" and not ids:
        raise UsageError("usage", "whose? Name the token's id", hint="gpulayer token ls")
    if action != "revoke" and ids:
        raise UsageError("usage", f"`token {action}` takes no id", hint="gpulayer token --help")
    if ttl and no_expiry:
        raise UsageError(
            "usage", "--ttl and --no-expiry exclude each other", hint="gpulayer token create"
        )
    if action == "create":
        _create(role, token_name, ttl, no_expiry, as_json, quiet)
    elif action == "ls":
        _list(everything, as_json, quiet)
    else:
        _revoke(ids, as_json, quiet)


def _create(
    role: str | None,
    name: str | None,
    ttl: str | None,
    no_expiry: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from gpulayer.api import credentials
    from gpulayer.clock import SystemIds
    from gpulayer.contracts.principals import CredentialKind

    token = credentials.make(CredentialKind.CLIENT, SystemIds())
    body: dict[str, Any] = {"token": token.reveal(), "role": role or "submitter"}
    if name:
        body["name"] = name
    if ttl:
        body["ttl_seconds"] = parse_duration(ttl, "--ttl")
    if no_expiry:
        body["no_expiry"] = True
    made = connect().call("POST", "/v1/tokens", body)
    if as_json:
        render.json_document({"token": {**made, "secret": token.reveal()}})
        return
    if not quiet:
        render.say(f"token {made['id']} for a {made['role']}, {_lasts(made)}, shown once:")
    render.data(token.reveal())


def _lasts(made: Mapping[str, Any]) -> str:
    if made["expires_at"] is None:
        return f"good until `gpulayer token revoke {made['id']}`: it never expires"
    return f"good for {duration_text(made['expires_at'] - made['created_at'])}"


def _list(everything: bool, as_json: bool, quiet: bool) -> None:
    now = SystemClock().now()
    tokens = connect().call("GET", "/v1/tokens")["tokens"]
    shown = [token for token in tokens if everything or _state(token, now).startswith("good")]
    if as_json:
        render.json_document({"tokens": shown})
    elif quiet:
        for token in shown:
            render.data(token["id"])
    elif shown:
        render.table(HEADERS, [_row(token, now) for token in shown])
    else:
        render.say("there is no token" if everything else "there is no token that is still good")


def _revoke(ids: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    wire = connect()
    done = [wire.call("DELETE", f"/v1/tokens/{one}") for one in ids]
    if as_json:
        render.json_document({"revoked": done})
    elif not quiet:
        for token in done:
            render.say(f"revoked {token['id']} {token['name']}".rstrip())


def _row(token: Mapping[str, Any], now: float) -> tuple[str, ...]:
    kind = "code" if token["kind"] == "join" else token["kind"]
    used = token["used_at"]
    ago = "never" if used is None else f"{duration_text(max(0.0, now - used))} ago"
    return (token["id"], kind, token["role"], token["name"] or "-", _state(token, now), ago)


def _state(token: Mapping[str, Any], now: float) -> str:
    if token["revoked_at"] is not None:
        return "revoked"
    if token["uses_left"] == 0:
        return "used up"
    ends = token["expires_at"]
    if ends is not None and ends <= now:
        return "expired"
    return "good, never expires" if ends is None else f"good for {duration_text(ends - now)}"
