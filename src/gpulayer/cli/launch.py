"""`gpulayer launch SCRIPT`: run a training script on several processes, as torchrun does.

With the streams, keys and exit code of `run`. What follows the script is the script's.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from gpulayer.cli import carry, render
from gpulayer.cli.flags import Starting, server_for, spec_from, starting_options
from gpulayer.cli.run import attached
from gpulayer.cli.session import connect_to, options
from gpulayer.cli.submit import queue, queued_here, words_of
from gpulayer.clock import SystemIds
from gpulayer.errors import UsageError
from gpulayer.sdk import launching
from gpulayer.sdk.folder import working_folder


@click.command("launch", cls=Starting, context_settings={"allow_interspersed_args": False})
@starting_options
@options("nodes", "procs_per_node", "launcher", "get", "detach", "dry_run", "quiet")
@click.argument("line", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
def command(
    line: tuple[str, ...],
    nodes: int | None,
    procs_per_node: int | None,
    launcher: str | None,
    get: str | None,
    detach: bool,
    dry_run: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Run a Python script on several processes, on one node or more, and stay until they end.

    Each process finds its rank where torchrun puts it: RANK, LOCAL_RANK, WORLD_SIZE. The first
    that fails ends all, and its exit code is this command's.
    """
    if not line:
        raise UsageError("usage", "nothing to run", hint="gpulayer launch train.py")
    script, *args = line
    carry.require_attached(get, detach=detach)
    if not detach:
        flags["on_unschedulable"] = flags["on_unschedulable"] or "fail"
    entrypoint, beside = launching.script_of(script, working_folder())
    workload = launching.workload_of(
        {"entrypoint": entrypoint, "args": args}, nodes, procs_per_node, launcher, flags["gpus"]
    )
    server = server_for(flags)
    spec = spec_from(workload, flags, server)
    if dry_run:
        from gpulayer.cli.plan import show

        return show(spec, words_of(spec), server, flags, as_json=False, quiet=quiet)
    is_talking = sys.stderr.isatty() and not quiet
    spec = carry.carry(spec, flags, server, is_talking=is_talking)
    if detach:
        render.data(queue(spec, flags["idempotency_key"], server, beside)["id"])
        return 0
    with_stdin = flags["stdin"] != "none"
    words = ["python", script, *args]
    if server is not None:
        from gpulayer.cli.far_run import attached as attached_afar

        return attached_afar(
            server, spec, words, flags["idempotency_key"], is_talking, with_stdin, get
        )
    if (nodes or 1) > 1:  # of several nodes here, what all of them say is in the log alone
        from gpulayer.cli.far_run import followed

        wire, key = connect_to(None), flags["idempotency_key"] or SystemIds().token(26)
        return followed(wire, lambda: queued_here(wire, spec, key, beside), "", is_talking, get)
    return attached(spec, words, flags["idempotency_key"], is_talking, with_stdin, beside, get)
