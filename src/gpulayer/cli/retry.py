"""`gpulayer retry JOB`: the same job again, as a new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.session import chosen, connect_to, options
from gpulayer.clock import SystemIds


@click.command("retry")
@click.argument("job", default="last")
@options("json", "quiet")
def command(job: str, as_json: bool, quiet: bool) -> None:
    """Submit an ended job again as a new one, in its folder, with this terminal's environment."""
    server = chosen()
    wire = connect_to(server)
    old = wire.call("GET", job_path(job))
    body = _from_here(old) if server is None else _from_afar(old)
    body["idempotency_key"] = SystemIds().token(26)
    fresh = wire.call("POST", job_path(old["id"], "retry"), body)
    if as_json:
        render.json_document({"job": fresh})
    else:
        render.data(fresh["id"])
        if not quiet:
            render.say(f"watch it: gpulayer logs -f {fresh['id']}")


def _from_here(old: Mapping[str, Any]) -> dict[str, Any]:
    from gpulayer.cli.submit import line_of
    from gpulayer.sdk import world
    from gpulayer.sdk.origin import origin_again
    from gpulayer.sdk.places import Places

    seen = world.of_terminal(line_of(old["spec"]))
    try:
        origin = origin_again(seen, old.get("origin") or {})
        envelope = world.register_envelope(Places.find(), seen, keep=True)
        return {"origin": origin, "envelope_id": envelope}
    finally:
        seen.close()


def _from_afar(old: Mapping[str, Any]) -> dict[str, Any]:
    from gpulayer.sdk.far import FarSubmitter

    return {"origin": FarSubmitter().again(old.get("origin") or {})[0]}
