"""`gpulayer workers`: who can run jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import duration_text

RECENT_SECONDS = 30.0
"""A heartbeat is written down every few seconds; what is younger is now."""

HEADERS = ("WORKER", "STATE", "GPUS", "CPU", "MEMORY", "PYTHON", "VERSION", "SEEN")


@click.command("workers")
@options("json", "quiet")
def command(as_json: bool, quiet: bool) -> None:
    """List workers, what they have and what they do."""
    workers = connect().call("GET", "/v1/workers")["workers"]
    if as_json:
        render.json_document({"workers": workers})
    elif quiet:
        for worker in workers:
            render.data(worker["id"])
    elif workers:
        now = SystemClock().now()
        render.table(HEADERS, [_row(worker, now) for worker in workers])
    else:
        render.say("no worker has registered yet")


def _row(worker: Mapping[str, Any], now: float) -> tuple[str, ...]:
    has = worker["capabilities"]
    memory = has.get("memory_gb")
    pythons = has.get("interpreters") or [{}]
    return (
        worker["name"],
        worker["state"],
        _gpus(has.get("gpus")),
        f"{has['cpu_cores']:g}",
        f"{memory:.0f} GB" if memory else "-",
        pythons[0].get("version") or "-",
        has.get("version") or "-",
        _seen(now - worker["seen_at"]),
    )


def _gpus(gpus: Any) -> str:
    if gpus is None:
        return "looking"
    names = [gpu["name"] for gpu in gpus]
    return ", ".join(f"{names.count(n)} x {n}" for n in dict.fromkeys(names)) or "-"


def _seen(seconds: float) -> str:
    return "now" if seconds < RECENT_SECONDS else duration_text(seconds)
