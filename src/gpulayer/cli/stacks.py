"""`gpulayer stacks JOB`: where the processes of a running job stand, alike ones together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.sdk.stacks import Group, groups, stacks

_NAMED = 12
"""So many processes of a group are named."""


@click.command("stacks")
@click.argument("job", default="last")
@options("json", "quiet")
def command(job: str, as_json: bool, quiet: bool) -> None:
    """Show the Python stacks of a running job's processes, those that stand alike together and the
    odd one last. With -q only the line of each.

    A process of `launch` shows its own; any other Python is read by py-spy, where the worker has
    it. Nothing is sent to a process that did not ask for it.
    """
    found = stacks(connect(), job)
    if as_json:
        render.json_document({"processes": found})
        return
    for line in _lines(found, is_short=quiet):
        render.data(render.plain(line))


def _lines(found: Sequence[Mapping[str, Any]], *, is_short: bool) -> Iterator[str]:
    has_nodes = len({process["node"] for process in found}) > 1
    for group in groups(found):
        yield f"{_who(group, has_nodes=has_nodes)}:"
        shown = group.frames[-1:] if is_short else group.frames
        yield from (f"  {file}:{line} in {name}" for file, line, name in shown)
        if not group.frames:
            yield "  nothing of Python"
    for process in found:
        if process["source"] is None:
            yield f"no stack of {_name(process)} ({process['command']}): {process['why']}"
    if not found:
        yield "no Python process of the job was found"


def _who(group: Group, *, has_nodes: bool) -> str:
    """`3 ranks: 0, 1, 3`, or each process."""
    processes = group.processes
    names = [str(p["rank"]) if p["is_rank"] else _name(p) for p in processes]
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    what = "rank" if processes[0]["is_rank"] else "process"
    plural = {"rank": "ranks", "process": "processes"}[what]
    hosts = sorted({p["worker"] for p in processes}) if has_nodes else []
    where = f" on {', '.join(hosts[:_NAMED])}" if hosts else ""
    return f"{len(names)} {what if len(names) == 1 else plural}: {shown}{where}"


def _name(process: Mapping[str, Any]) -> str:
    if process["is_rank"]:
        return f"rank {process['rank']}"
    of = "" if process["rank"] is None else f" of rank {process['rank']}"
    return f"pid {process['pid']}{of}"
