"""`gpulayer why JOB`: where a job is and why, worker by worker, check by check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.outcome import state_words
from gpulayer.cli.outlook import show_outlook
from gpulayer.cli.session import connect, options

HEADERS = ("WORKER", "FITS", "CHECK", "NEEDS", "HAS")


@click.command("why")
@click.argument("job", default="last")
@options("json", "quiet")
def command(job: str, as_json: bool, quiet: bool) -> None:
    """Explain where a job is: each worker, each check, needed and had; the closest first."""
    wire = connect()
    found = wire.call("GET", job_path(job))
    decision = wire.call("GET", job_path(found["id"], "decision"))
    if as_json:
        render.json_document({"job": found["id"], "state": found["state"], "decision": decision})
        return
    render.paragraph(sentence(found))
    if not quiet and (found["state"], found["reason"]) != ("queued", "dependency"):
        show_decision(decision)
        show_outlook(decision.get("outlook"))


def sentence(job: Mapping[str, Any]) -> str:
    """`train-7f3ak2mq is queued: lab-1 needs 2 GPUs, has 1`."""
    cause = render.silence(job) or str(job.get("message") or job.get("reason") or "")
    if job["state"] == "queued" and job.get("decision_summary"):
        cause = str(job["decision_summary"]).removeprefix("waits: ")
    told = cause if cause not in ("exited", "started", "placed", "cancelled") else ""
    where = f" on {job['worker']}" if job.get("worker") else ""
    return f"{job['id']} {state_words(job)}{where}" + (f": {told}" if told else "")


def show_decision(decision: Mapping[str, Any]) -> None:
    """The decision as a table: one line per check that matters, the closest worker first."""
    verdicts: Sequence[Mapping[str, Any]] = decision.get("verdicts") or ()
    if not verdicts:
        render.data("no placement has been tried yet")
        return
    rows = []
    for verdict in verdicts:
        telling = [c for c in verdict["checks"] if c["fit"] != "yes"] or verdict["checks"]
        for number, check in enumerate(telling):
            who, fits = (_who(verdict), verdict["fit"]) if number == 0 else ("", "")
            rows.append((who, fits, check["name"], check["need"], check["have"]))
    render.table(HEADERS, rows, wrap=True)


def _who(verdict: Mapping[str, Any]) -> str:
    others = verdict.get("count", 1) - 1
    return f"{verdict['worker_name']} and {others} more" if others else str(verdict["worker_name"])
