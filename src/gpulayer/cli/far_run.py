"""`gpulayer run` where a server is chosen: the job runs there, its output and its end are here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpulayer.cli import carry, render, waiting
from gpulayer.cli.run import OURS, WAIT_SECONDS, tell_end
from gpulayer.clock import SystemIds
from gpulayer.sdk import interrupts
from gpulayer.sdk.far import far_origin
from gpulayer.sdk.far_attach import FarAttachment

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire
    from gpulayer.sdk.servers import Elsewhere


def attached(
    server: Elsewhere,
    spec: dict[str, Any],
    words: list[str],
    key: str | None,
    is_talking: bool,
    with_stdin: bool,
    get: str | None = None,
    *,
    refresh: bool = False,
) -> int:
    """Submit, follow until the end, and end as the job did. 125 and up only for what is ours."""
    wire = server.wire()
    if with_stdin:
        spec = carry.with_stdin(spec, wire, is_talking=is_talking)
    body = {
        "spec": spec,
        "origin": far_origin(words),
        "idempotency_key": key or SystemIds().token(26),
        **({"refresh": True} if refresh else {}),
    }
    where = f" on {server.name}" if server.name else ""
    return followed(wire, lambda: wire.call("POST", "/v1/jobs", body), where, is_talking, get)


def followed(
    wire: Wire,
    submit: Callable[[], dict[str, Any]],
    where: str,
    is_talking: bool,
    get: str | None = None,
) -> int:
    """Submit a job that is seen by its log alone, and stay with it as `attached` does."""
    with FarAttachment(render.say, is_talking=is_talking) as attachment:
        job = submit()
        if is_talking:
            render.say(f"{'cached, from ' if job.get('cached') else ''}job {job['id']}{where}")
            if job["note"]:
                render.say(render.plain(job["note"]))
        with waiting.told_after(WAIT_SECONDS, wire, job["id"] if is_talking else None):
            in_ranks, in_elements = job["ranks"] > 1, bool(job.get("array"))
            report = attachment.relay(
                wire, job["id"], in_ranks=in_ranks or in_elements, in_elements=in_elements
            )
    is_told = is_talking or report.exit_code in OURS or (in_elements and report.exit_code)
    if report.outcome != "left" and is_told:
        tell_end(wire, job["id"], report, is_talking)
    if get and report.outcome != "left":
        carry.bring(wire, job["id"], get)
    interrupts.end_as(report)
    return int(report.exit_code)
