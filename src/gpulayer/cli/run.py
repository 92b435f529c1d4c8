"""`gpulayer run -- COMMAND`: run a command here and stay with it.

It behaves as the command itself would in this terminal: streams, keys, signals, exit code. What
GPUlayer has to say goes to stderr; without a terminal only what is GPUlayer's own doing.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import carry, render, waiting
from gpulayer.cli.flags import Starting, server_for, spec_from, starting_options
from gpulayer.cli.outcome import explained, line
from gpulayer.cli.session import connect_to, options
from gpulayer.clock import SystemIds
from gpulayer.errors import GPULayerError, UsageError
from gpulayer.sdk import interrupts, world
from gpulayer.sdk.attach import Attachment
from gpulayer.sdk.origin import origin_of
from gpulayer.sdk.places import Places

WAIT_SECONDS = 1.0
"""A job that has not been placed by then is worth a word about what it waits for."""
RECORD_SECONDS = 10.0
"""Longest wait for the plane to write down an end that this terminal has seen already. Its error,
and what the next line of a script sees, come from there, on a busy machine too."""
OURS = (124, 125, 126, 127)
"""Exit codes that may be GPUlayer's doing; the job's record says whether they are."""


@click.command("run", cls=Starting, context_settings={"allow_interspersed_args": False})
@starting_options
@options("get", "detach", "dry_run", "quiet")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    command: tuple[str, ...],
    get: str | None,
    detach: bool,
    dry_run: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Run a command on this machine and stay with it until it ends.

    Its output is yours byte for byte, and its exit code is this command's. Ctrl-C interrupts it;
    closing the terminal leaves it running.
    """
    words = list(command)
    if not words:
        raise UsageError("usage", "nothing to run", hint="gpulayer run -- python train.py")
    carry.require_attached(get, detach=detach)
    if not detach:
        flags["on_unschedulable"] = flags["on_unschedulable"] or "fail"
    server = server_for(flags)
    spec = spec_from({"kind": "command", "command": words}, flags, server)
    words = list(spec["workload"]["command"])
    if dry_run:
        from gpulayer.cli.plan import show

        return show(spec, words, server, flags, as_json=False, quiet=quiet)
    is_talking = sys.stderr.isatty() and not quiet
    spec = carry.carry(spec, flags, server, is_talking=is_talking)
    if detach:
        from gpulayer.cli.submit import queue

        job = queue(spec, flags["idempotency_key"], server, refresh=flags["refresh"])
        render.data(job["id"])
        return 0
    with_stdin = flags["stdin"] != "none" and "array" not in spec
    if server is not None:
        from gpulayer.cli.far_run import attached as attached_afar

        return attached_afar(
            server, spec, words, flags["idempotency_key"], is_talking, with_stdin, get,
            refresh=flags["refresh"],
        )  # fmt: skip
    if "array" in spec or spec.get("cache"):  # what it says, or said before, is in the log alone
        from gpulayer.cli.far_run import followed
        from gpulayer.cli.submit import queued_here

        wire, key = connect_to(None), flags["idempotency_key"] or SystemIds().token(26)
        anew = flags["refresh"]
        return followed(
            wire, lambda: queued_here(wire, spec, key, {}, refresh=anew), "", is_talking, get
        )
    return attached(spec, words, flags["idempotency_key"], is_talking, with_stdin, get=get)


def attached(
    spec: dict[str, Any],
    words: list[str],
    key: str | None,
    is_talking: bool,
    with_stdin: bool,
    beside: Mapping[str, Any] | None = None,
    get: str | None = None,
) -> int:
    """Submit, relay until the end, and end as the job did. 125 and up only for what is ours.
    `beside` is added to the job's origin; `get`: where its outputs go then."""
    wire = connect_to(None)
    seen = world.of_terminal(words)
    in_ranks = spec["workload"]["kind"] == "distributed"
    if not in_ranks and not spec.get("image"):
        spec["workload"]["command"] = seen.line
    with Attachment.open(Places.find(), seen, stdin=with_stdin, in_ranks=in_ranks) as attachment:
        origin = origin_of(seen, words) | {"attach_id": attachment.attach_id} | dict(beside or {})
        body = {
            "spec": spec,
            "origin": origin,
            "envelope_id": attachment.envelope_id,
            "idempotency_key": key or SystemIds().token(26),
        }
        job = wire.call("POST", "/v1/jobs", body)
        if is_talking:
            render.say(f"job {job['id']}{_python(words, seen, spec)}")
            if job["note"]:
                render.say(render.plain(job["note"]))
        attempts = int((spec.get("retry") or {}).get("max_attempts", 1))
        with waiting.told_after(WAIT_SECONDS, wire, job["id"] if is_talking else None):
            has_limit = spec.get("timeout_seconds") is not None
            report = attachment.relay(job["id"], attempts=attempts, has_limit=has_limit)
    if report.outcome != "left" and (is_talking or report.exit_code in OURS):
        tell_end(wire, job["id"], report, is_talking)
    elif report.outcome != "left":
        _until_recorded(wire, job["id"])
    if get and report.outcome != "left":
        carry.bring(wire, job["id"], get)
    interrupts.end_as(report)
    return int(report.exit_code)


def tell_end(wire: Wire, job_id: str, report: interrupts.ExitReport, is_talking: bool) -> None:
    """One line on a terminal; where the end is neither the job's own nor a key's, the error."""
    job = wire.call("GET", job_path(job_id, wait=RECORD_SECONDS), park=RECORD_SECONDS)
    by_key = report.signal in (signal.SIGINT, signal.SIGQUIT)
    if by_key or job["reason"] == "exited" or job["state"] in ("succeeded", "cancelled"):
        if is_talking:
            render.say(line(job))
            if left := carry.left_words(job):
                render.say(render.plain(left))
    elif job["finished_at"] is not None:
        render.error(explained(wire, job))


def _until_recorded(wire: Wire, job_id: str) -> None:
    """The next line of a script may look at the job, so its end should be on record by then.

    A plane that has gone is not waited for: whoever looks next starts one, which hears of it.
    """
    path = job_path(job_id, wait=RECORD_SECONDS)
    try:
        wire.aside().call("GET", path, park=RECORD_SECONDS)
    except GPULayerError:
        pass


def _python(words: list[str], seen: world.World, spec: Mapping[str, Any]) -> str:
    """The interpreter, where the line begins with one, and what is installed for the job."""
    if image := spec.get("image"):
        return f"  in {image}"
    python = f"  {seen.interpreter.say()}" if words[0].startswith("python") else ""
    environment = spec.get("environment") or {}
    needs = [*environment.get("requirements", ()), *filter(None, [environment.get("file")])]
    return python + (f"  requires {', '.join(needs)}" if needs else "")
