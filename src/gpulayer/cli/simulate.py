"""`gpulayer simulate`: a trace of jobs on a fleet, replayed through the scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import options
from gpulayer.contracts.durations import duration_text
from gpulayer.errors import NotFoundError, Problem, UsageError

if TYPE_CHECKING:
    from gpulayer.contracts.decision import WorkerView
    from gpulayer.simulate.engine import Policy

HEADERS = ("POLICY", "GPUS", "JOBS", "MEAN", "MEDIAN", "P99", "LONGEST")
POLICIES = ("gpulayer", "easy", "fifo")


@click.command("simulate")
@options("trace", "fleet", "policy", "limits", "packing", "json", "quiet")
def command(
    trace: str | None,
    fleet: str | None,
    policy: tuple[str, ...],
    limits: str,
    packing: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Replay a trace of jobs on a fleet, on virtual time: how long would they have waited?

    The trace is a CSV file with job_id, submission_time, duration and num_gpu, times in seconds.
    The fleet is JSON or YAML: `workers: [{count: 4, gpus: 8}]`, or what `gpulayer workers --json`
    prints. Beside the scheduler of GPUlayer: EASY backfill, and first come first served.
    """
    from gpulayer.contracts.problems import spec_error
    from gpulayer.simulate import engine, report
    from gpulayer.simulate.fleet import read_fleet
    from gpulayer.simulate.trace import HINT, read_trace

    if trace is None or fleet is None:
        lacks = "--trace" if trace is None else "--fleet"
        raise UsageError("usage", f"{lacks} FILE is missing", hint=HINT)
    jobs = read_trace(text_of(trace), trace, _factor(limits))
    machines = read_fleet(text_of(fleet), fleet)
    gpus = sum(len(view.capabilities.gpus or ()) for view in machines)
    sized, never = engine.sized(jobs, machines)
    if not sized:
        least = min(job.gpus for job in jobs)
        why = (
            f"no job of {trace} fits: the smallest needs {least} "
            f"GPU{'' if least == 1 else 's'}, and all machines together have {gpus}"
        )
        raise spec_error([Problem("", why, "", None, "invalid-file")], fleet, hint=HINT)
    told: dict[str, Any] = {}
    for name in policy or POLICIES:
        begun = time.process_time()
        run = engine.replay(sized, _policy(name, packing, machines))
        told[name] = report.figures(sized, run, gpus)
        told[name]["cpu_seconds"] = time.process_time() - begun
    body = {
        "trace": trace,
        "jobs": len(jobs),
        "too_large": never,
        "fleet": {"workers": len(machines), "gpus": gpus},
        "limits": limits,
        "policies": told,
    }
    if as_json:
        render.json_document({"simulation": body})
    elif quiet:
        for name, figures in told.items():
            render.data(f"{name} {figures['classes'].get('all', {}).get('mean') or 0:.0f}")
    else:
        for line in _head(body):
            render.data(line)
        render.table(HEADERS, [row for name in told for row in _rows(name, told[name])])


def _policy(name: str, packing: str, machines: Sequence[WorkerView]) -> Policy:
    from gpulayer.simulate.production import Production
    from gpulayer.simulate.reference import Reference

    if name == "gpulayer":
        return Production(machines, packing)
    return Reference(machines, backfills=name == "easy")


def _factor(limits: str) -> float | None:
    """`exact`, `none` or how many times what it runs a job promises."""
    known: Mapping[str, float | None] = {"exact": 1.0, "none": None}
    if limits in known:
        return known[limits]
    try:
        factor = float(limits)
    except ValueError:
        factor = 0.0
    if not 1 <= factor <= 1e6:
        why = f"--limits is exact, none or a number from 1, not '{limits}'"
        raise UsageError("usage", why, hint="--limits exact")
    return factor


def text_of(name: str) -> str:
    """What a file says. NotFoundError where it cannot be read."""
    try:
        return Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise NotFoundError("file-not-found", f"{name} cannot be read: {why}", hint="ls") from error


def _head(body: Mapping[str, Any]) -> Iterator[str]:
    fleet = body["fleet"]
    plural = "" if fleet["workers"] == 1 else "s"
    yield f"{body['jobs']} jobs on {fleet['workers']} machine{plural} with {fleet['gpus']} GPUs"
    if body["too_large"]:
        yield f"{body['too_large']} jobs are too large for this fleet and were left out"
    for name, figures in body["policies"].items():
        yield (
            f"{name}: {figures['utilisation']:.0%} of the GPU time used; "
            f"replayed in {figures['cpu_seconds']:.1f} s"
        )


def _rows(name: str, figures: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for size, waits in figures["classes"].items():
        times = (_time(waits[key]) for key in ("mean", "median", "p99", "max"))
        lost = f" ({waits['never_began']} never began)" if waits["never_began"] else ""
        yield name, size, f"{waits['jobs']}{lost}", *times
        name = ""


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else duration_text(seconds)
