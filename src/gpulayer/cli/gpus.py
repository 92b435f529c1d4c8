"""`gpulayer gpus`: every GPU, whether jobs may have it, and who has it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options

HEADERS = ("WORKER", "GPU", "MODEL", "MEMORY", "UTIL", "FREE FOR JOBS", "JOB")


@click.command("gpus")
@options("json", "quiet")
def command(as_json: bool, quiet: bool) -> None:
    """List GPUs, whether jobs may have them, and who has them."""
    workers = connect().call("GET", "/v1/workers")["workers"]
    if as_json:
        found = [{"worker": w["name"], **gpu} for w, gpu in _all(workers)]
        render.json_document({"gpus": found, "notes": _notes(workers)})
        return
    rows = [_row(worker, gpu) for worker, gpu in _all(workers)]
    if quiet:
        for _, gpu in _all(workers):
            render.data(gpu["uuid"])
        return
    if rows:
        render.table(HEADERS, rows)
    for note in _notes(workers):
        render.say(render.plain(note))


def _all(workers: Any) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for worker in workers:
        for gpu in worker["capabilities"].get("gpus") or ():
            yield worker, gpu


def _row(worker: Mapping[str, Any], gpu: Mapping[str, Any]) -> tuple[str, ...]:
    holder = worker["gpus_used"].get(gpu["uuid"])
    memory, load = gpu.get("memory_gb"), gpu.get("utilization")
    return (
        worker["name"],
        str(gpu["index"]),
        gpu["name"],
        f"{memory:.1f} GB" if memory else "-",
        f"{load:.0%}" if load is not None else "-",
        _free(gpu, holder),
        holder or "-",
    )


def _free(gpu: Mapping[str, Any], holder: str | None) -> str:
    if gpu.get("healthy") is False:
        return f"no: {gpu.get('unhealthy_why') or 'not healthy'}"
    if gpu.get("foreign_pids"):
        return f"no: held by pid {', '.join(map(str, gpu['foreign_pids']))}"
    return "in use" if holder else "yes"


def _notes(workers: Any) -> list[str]:
    notes = []
    for worker in workers:
        has = worker["capabilities"]
        if has.get("gpus") is None:
            notes.append(f"{worker['name']}: still looking for GPUs")
        elif not has["gpus"]:
            why = has.get("gpu_note") or "no GPU was found; CPU jobs work"
            notes.append(f"{worker['name']}: {why}")
        elif has.get("gpu_note"):
            notes.append(f"{worker['name']}: {has['gpu_note']}")
    return notes
