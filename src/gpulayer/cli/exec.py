"""`gpulayer exec JOB -- COMMAND`: a command inside a running job."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.errors import UsageError
from gpulayer.sdk import interrupts, streams
from gpulayer.sdk.terminal import Screen
from gpulayer.sdk.visit import Visit

PASSED_ON = ("TERM", "COLORTERM")
"""What a terminal's programs must know of it."""


@click.command("exec", context_settings={"allow_interspersed_args": False})
@options("tty", "interactive", "node", "stdin")
@click.argument("job")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    job: str,
    command: tuple[str, ...],
    tty: bool,
    interactive: bool,
    node: int | None,
    stdin: str | None,
) -> int:
    """Run a command inside a running job: in its folder, with its environment and its GPUs.

    Its output is yours byte for byte, its exit code is this command's, and Ctrl-C interrupts it. It
    ends with the job, and when you leave.
    """
    words = list(command[1:] if command[:1] == ("--",) else command)
    if not words:
        hint = f"gpulayer exec {job} -- ps x"
        raise UsageError("usage", "no command to run in the job", hint=hint)
    return visit(job, words, node or 0, wants_terminal=tty, with_stdin=stdin != "none")


def visit(
    job: str,
    words: Sequence[str],
    node: int,
    *,
    wants_terminal: bool,
    with_stdin: bool = True,
    begun: Callable[[dict[str, Any]], object] = lambda told: None,
) -> int:
    """Be there until the command has ended, and end as it did."""
    streams.fill_closed()
    wire = connect()
    screen = _screen() if wants_terminal else None
    try:
        going_in = Visit(
            wire,
            job,
            words,
            node=node,
            screen=screen,
            with_stdin=with_stdin,
            environ={k: os.environ[k] for k in PASSED_ON if k in os.environ} if screen else {},
            begun=begun,
        )
        report = going_in.relay()
    finally:
        if screen is not None:
            screen.close()
    if report.message and (report.reason or report.outcome == "left"):
        render.say(render.plain(report.message))
    interrupts.end_as(report)
    return report.exit_code


def _screen() -> Screen | None:
    """This terminal, where a person is at both ends of it; as ssh, else no terminal is made."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return Screen.controlling()
    render.say("no terminal: standard input or output is none here")
    return None
