"""`gpulayer gc`: remove what no job needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from gpulayer.cli import render
from gpulayer.cli.session import connect, options
from gpulayer.contracts.durations import parse_duration
from gpulayer.errors import NotFoundError

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire

PARK = 60.0
HEADERS = ("WORKER", "ENVIRONMENTS", "IMAGES", "ARTIFACTS", "WORKSPACES", "NOTE")
_SHOWN = 20


@click.command("gc")
@options("older_than", "dry_run", "json", "quiet")
def command(older_than: str | None, dry_run: bool, as_json: bool, quiet: bool) -> None:
    """Remove old jobs with their logs, logs past their limit, artifacts that no job refers to.

    Old are jobs that ended more than 30 days ago, and all but the last 100,000. A plane that runs
    does the same by itself, and leaves artifacts without a job for a week. With --dry-run also
    what the workers keep is listed, of images those that were pulled for jobs: they let go of it by
    themselves, environments by `env rm`.
    """
    body: dict[str, object] = {"dry_run": dry_run}
    if older_than is not None:
        body["older_than"] = parse_duration(older_than, "--older-than", zero=True)
    wire = connect()
    done = wire.call("POST", "/v1/gc", body)
    workers = caches(wire) if dry_run else []
    if as_json:
        render.json_document({**done, "workers": workers} if dry_run else done)
        return
    if quiet:
        return
    if dry_run and done["items"]:
        render.table(("WHAT", "NAME", "SIZE", "WHY"), _rows(done["items"][:_SHOWN]))
    word = "would remove" if dry_run else "removed"
    render.say(f"{word} {', '.join(_counts(done))}; {render.size(_bytes(done))} in all")
    if workers:
        render.table(HEADERS, map(_kept, workers))


def caches(wire: Wire) -> list[dict[str, Any]]:
    """What each worker keeps; of one that does not answer, why. Nothing of a server that is too
    old to ask them."""
    try:
        found = wire.call("GET", f"/v1/caches?wait={PARK / 2:g}", park=PARK)["workers"]
    except NotFoundError:
        return []
    return [
        {key: worker[key] for key in ("id", "name", "state", "why")} | (worker["answer"] or {})
        for worker in found
    ]


def _kept(worker: Mapping[str, Any]) -> tuple[str, ...]:
    if worker["state"] != "answered":
        return worker["name"], "-", "-", "-", "-", f"no answer: {worker['why']}"
    environments = worker["environments"]
    pulled = [one for one in worker.get("images", ()) if one["pulled"]]  # an older one tells none
    lists = {"environments": environments, "images": pulled}
    used = [
        f"{count} {kind} in use"
        for kind, found in lists.items()
        if (count := sum(bool(one["used_by"]) for one in found))
    ]
    held = [{"count": len(one), "bytes": sum(e["bytes"] for e in one)} for one in lists.values()]
    kinds = (*held, worker["artifacts"], worker["workspaces"])
    told = (
        f"{one['count']}, {render.size(one['bytes'])}" if one["count"] else "-" for one in kinds
    )
    return worker["name"], *told, ", ".join(used)


def _rows(items: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    for item in items:
        name = item["name"][:12] if item["kind"] == "artifact" else item["name"]
        yield item["kind"], name, render.size(item["bytes"]), item["why"]


def _counts(done: Mapping[str, Any]) -> Iterator[str]:
    yield f"{done['jobs']} jobs"
    if done["logs"]:
        yield f"the logs of {done['logs']} more"
    yield f"{done['artifacts']} artifacts"
    if done["remains"]:
        yield f"{done['remains']} remains"


def _bytes(done: Mapping[str, Any]) -> int:
    return int(done["log_bytes"] + done["artifact_bytes"] + done["remains_bytes"])
