"""`gpulayer shell JOB`: a shell inside a running job."""

from __future__ import annotations

import sys
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.exec import visit
from gpulayer.cli.session import options


@click.command("shell")
@click.argument("job", default="last")
@options("node", "quiet")
def command(job: str, node: int | None, quiet: bool) -> int:
    """Open a shell inside a running job: your own, in its folder, with its environment and GPUs.

    The job goes on when you leave, and the shell ends when the job does.
    """
    is_person = sys.stdin.isatty() and sys.stdout.isatty()
    begun = _say_where if is_person and not quiet else _say_nothing
    return visit(job, (), node or 0, wants_terminal=is_person, begun=begun)


def _say_where(told: dict[str, Any]) -> None:
    node = f", node {told['node']}" if told["node"] else ""
    where = f"in {told['job']} on {told['worker']}{node}: {told['cwd']}"
    render.say(render.plain(f"{where}   (exit leaves; the job goes on)") + "\r")


def _say_nothing(told: dict[str, Any]) -> None:
    pass
