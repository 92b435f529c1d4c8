"""`gpulayer retry JOB`: the same job again, as a new one."""

from __future__ import annotations

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.clock import SystemIds


@click.command("retry")
@click.argument("job", default="last")
@options("json", "quiet")
def command(job: str, as_json: bool, quiet: bool) -> None:
    """Submit an ended job again as a new one, in its folder, with this terminal's environment."""
    from gpulayer.cli.submit import line_of
    from gpulayer.sdk import world
    from gpulayer.sdk.origin import origin_again
    from gpulayer.sdk.places import Places

    wire = connect()
    old = wire.call("GET", job_path(job))
    seen = world.of_terminal(line_of(old["spec"]))
    try:
        origin = origin_again(seen, old.get("origin") or {})
        body = {
            "origin": origin,
            "envelope_id": world.register_envelope(Places.find(), seen, keep=True),
            "idempotency_key": SystemIds().token(26),
        }
    finally:
        seen.close()
    fresh = wire.call("POST", job_path(old["id"], "retry"), body)
    if as_json:
        render.json_document({"job": fresh})
    else:
        render.data(fresh["id"])
        if not quiet:
            render.say(f"watch it: gpulayer logs -f {fresh['id']}")
