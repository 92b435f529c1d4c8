"""`gpulayer cancel JOB...`: ask jobs to end."""

from __future__ import annotations

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.errors import UsageError


@click.command("cancel")
@click.argument("jobs", nargs=-1)
@options("every", "now", "json", "quiet")
def command(jobs: tuple[str, ...], every: bool, now: bool, as_json: bool, quiet: bool) -> None:
    """End jobs: TERM first, KILL after ten seconds. Cancelling twice is the same as once."""
    if every == bool(jobs):
        raise UsageError("usage", "name the jobs, or say --all", hint="gpulayer cancel last")
    for selector in jobs:
        job_path(selector)  # what can name no job is told in the same words everywhere
    asked = connect().call(
        "POST",
        "/v1/jobs/cancel",
        {"mode": "kill" if now else "term", **({"all": True} if every else {"jobs": jobs})},
    )
    if as_json:
        render.json_document({"jobs": asked["jobs"]})
        return
    had_ended = frozenset(asked["had_ended"])
    for job in asked["jobs"]:
        if quiet:
            render.data(job["id"])
        elif job["id"] in had_ended:
            render.say(f"{job['id']} had ended already: {job['state']}")
        elif job["finished_at"] is None:
            render.say(f"{job['id']} is being ended")
        else:
            render.say(f"{job['id']} is {job['state']}")
    if every and not asked["jobs"] and not quiet:
        render.say("no jobs are waiting or running")
