"""`gpulayer why JOB`: where a job is and why, worker by worker, check by check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, job_path, options


@click.command("why")
@click.argument("job", default="last")
@options("json")
def command(job: str, as_json: bool) -> None:
    """Explain where a job is: each worker, each check, needed and had."""
    wire = connect()
    found = wire.call("GET", job_path(job))
    decision = wire.call("GET", job_path(job, "decision"))
    if as_json:
        render.json_document({"job": found["id"], "state": found["state"], "decision": decision})
        return
    render.data(f"{render.plain(found['id'])} is {found['state']}: {render.plain(cause(found))}")
    show_decision(decision)


def cause(job: Mapping[str, Any]) -> str:
    """The one sentence that matters for the state that the job is in."""
    if job["state"] == "queued" and job.get("decision_summary"):
        return str(job["decision_summary"])
    return str(job.get("message") or job.get("reason") or "")


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
            rows.append(
                (
                    _who(verdict) if number == 0 else "",
                    verdict["fit"] if number == 0 else "",
                    check["name"],
                    check["need"],
                    check["have"],
                )
            )
    render.table(("WORKER", "FITS", "CHECK", "NEEDS", "HAS"), rows)


def _who(verdict: Mapping[str, Any]) -> str:
    others = verdict.get("count", 1) - 1
    return f"{verdict['worker_name']} and {others} more" if others else str(verdict["worker_name"])
