"""`gpulayer retry JOB`: the same job again, as a new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.session import chosen, connect_to, options
from gpulayer.clock import SystemIds

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire


@click.command("retry")
@click.argument("job", default="last")
@options("exact", "json", "quiet")
def command(job: str, exact: bool, as_json: bool, quiet: bool) -> None:
    """Submit an ended job again as a new one, in its folder, with this terminal's environment.

    With --exact also with the same code, inputs, image, Python and versions of packages, or, where
    one of these has gone, not at all. `gpulayer diff OLD NEW` says what came out differently.
    """
    server = chosen()
    wire = connect_to(server)
    old = wire.call("GET", job_path(job))
    body: dict[str, Any] = {"idempotency_key": SystemIds().token(26)}
    if exact and old["finished_at"] is not None:  # else the plane says that it has not ended
        from gpulayer.sdk.exact import exact_spec

        body["spec"] = exact_spec(wire, old, is_here=server is None)
    fresh = (_from_here if server is None else _from_afar)(wire, old, body)
    if as_json:
        render.json_document({"job": fresh})
    else:
        render.data(fresh["id"])
        if not quiet:
            render.say(f"watch it: gpulayer logs -f {fresh['id']}")


def _from_here(wire: Wire, old: Mapping[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    from gpulayer.cli.submit import line_of
    from gpulayer.sdk import world
    from gpulayer.sdk.origin import origin_again
    from gpulayer.sdk.places import Places

    seen = world.of_terminal(line_of(old["spec"]))
    try:
        body["origin"] = origin_again(seen, old.get("origin") or {}, exact="spec" in body)
        with world.given(Places.find(), seen) as envelope:
            return _again(wire, old, body | {"envelope_id": envelope})
    finally:
        seen.close()


def _from_afar(wire: Wire, old: Mapping[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    from gpulayer.sdk.far import FarSubmitter

    origin, _ = FarSubmitter().again(old.get("origin") or {})
    return _again(wire, old, body | {"origin": origin})


def _again(wire: Wire, old: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    return dict(wire.call("POST", job_path(old["id"], "retry"), body))
