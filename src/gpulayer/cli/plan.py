"""`gpulayer plan`: where a job would run and why. Nothing is submitted."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.flags import starting_options
from gpulayer.cli.session import connect, options
from gpulayer.cli.submit import Described, described, line_of, words_of
from gpulayer.cli.why import show_decision


@click.command("plan", cls=Described, context_settings={"allow_interspersed_args": False})
@starting_options
@options("file", "args", "kwargs", "json", "quiet")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    command: tuple[str, ...],
    job_file: str | None,
    args: str | None,
    kwargs: str | None,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Say where a job would run, what would run there, and why not elsewhere.

    Exit code 1: with these workers it never runs.
    """
    spec = described(command, job_file, args, kwargs, flags)
    return show(spec, words_of(spec), as_json, quiet)


def show(spec: Mapping[str, Any], words: Sequence[str], as_json: bool, quiet: bool) -> int:
    """Print the plan. 0 when it could start now or later, 1 when never."""
    from gpulayer.sdk import world
    from gpulayer.sdk.origin import origin_of

    seen = world.of_terminal(line_of(spec))
    try:
        origin = origin_of(seen, words)
        decision = connect().call("POST", "/v1/plan", {"spec": spec, "origin": origin})
    finally:
        seen.close()
    line = words if spec["workload"]["kind"] == "function" else seen.line
    fits = [verdict["fit"] for verdict in decision["verdicts"]]
    never = decision["outcome"] == "unschedulable" or (bool(fits) and set(fits) == {"never"})
    if as_json:
        render.json_document({"plan": decision})
    elif quiet:
        render.data("never" if never else decision["outcome"])
    else:
        render.paragraph(_sentence(decision, never))
        render.data(f"command: {render.plain(shlex.join(line))}")
        render.data(f"folder:  {render.plain(seen.envelope['cwd'])}")
        render.data(f"python:  {render.plain(seen.interpreter.say())}")
        show_decision(decision)
    return int(never)


def _sentence(decision: Mapping[str, Any], never: bool) -> str:
    summary = str(decision["summary"])
    if decision["outcome"] == "placed":
        return f"it would start now: {summary}"
    if never:
        return f"it can never start here: {summary.removesuffix('; waits for one that can')}"
    return f"it would wait: {summary.removeprefix('waits: ')}"
