"""`gpulayer forward JOB PORT[:LOCAL]`: a port of a running job, here."""

from __future__ import annotations

import re
import sys

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.errors import UsageError
from gpulayer.sdk.forwarding import Forwarding

_PORTS = re.compile(r"(\d{1,5})(?::(\d{1,5}))?")


@click.command("forward")
@click.argument("job")
@click.argument("port", metavar="PORT[:LOCAL]")
@options("node", "json", "quiet")
def command(job: str, port: str, node: int | None, as_json: bool, quiet: bool) -> int:
    """Reach a port of a running job at 127.0.0.1:LOCAL; without LOCAL at the same number.

    LOCAL 0 takes any free port. The address is printed once it can be used. It ends with the job,
    and with Ctrl-C.
    """
    there, here = _ports(job, port)
    wire = connect()
    forwarding = Forwarding(wire, job, there, here, node=node or 0, said=_say)
    about = forwarding.about
    address, local = forwarding.address
    if as_json:
        found = {"job": about["job"], "worker": about["worker"], "node": about["node"]}
        render.json_document({**found, "port": there, "address": address, "local": local})
    else:
        render.data(f"{address}:{local}")
    sys.stdout.flush()
    if not quiet:
        where = f"port {there} of {about['job']} on {about['worker']}"
        _say(f"{where} is at {address}:{local}; Ctrl-C ends that")
    forwarding.serve()
    if not quiet:
        _say(f"{about['job']} has ended, and its forward with it")
    return 0


def _say(line: str) -> None:
    render.say(render.plain(line))


def _ports(job: str, text: str) -> tuple[int, int]:
    found = _PORTS.fullmatch(text)
    there = int(found[1]) if found else 0
    here = int(found[2]) if found and found[2] else there
    if not 0 < there < 65_536 or here > 65_535:
        raise UsageError(
            "usage",
            f"{text!r} is not PORT or PORT:LOCAL",
            why="ports are 1 to 65535; LOCAL may be 0, for any",
            hint=f"gpulayer forward {job} 8888:0",
        )
    return there, here
