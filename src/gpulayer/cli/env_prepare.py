"""`gpulayer env prepare`: one short job on every worker that matches, pinned to it.

As jobs, so that they keep everything that preparations have: their phase, their time limit, their
end with a worker that is lost, the terminal's variables for those here. What a job here or there
would find is what they make, since it is made the same way.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from gpulayer.api.paths import job_path
from gpulayer.cli import render, waiting
from gpulayer.cli.flags import server_for
from gpulayer.cli.outcome import explained
from gpulayer.cli.session import connect_to
from gpulayer.contracts.durations import duration_text, parse_duration
from gpulayer.contracts.requirement_files import LOCK, PROJECT
from gpulayer.errors import GPULayerError, SchedulingError, UsageError
from gpulayer.sdk.describe import ANYWHERE, spec_of
from gpulayer.sdk.requirements import requirements_of

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire
    from gpulayer.sdk.servers import Elsewhere

NAME = "env-prepare"
COMMAND = ("python", "-c", "")
"""Its Python starts and ends."""
CORES = 0.01
PARK = 30.0
FIRST_SECONDS, AGAIN_SECONDS = 3.0, 10.0
AT_ONCE = 64
"""Workers that are followed at one time."""
INTERRUPTED = 130


def prepare(words: Sequence[str], flags: Mapping[str, Any], *, as_json: bool, quiet: bool) -> int:
    """0 when it is there on every worker that matches; 1 if not, also where one is away."""
    if not words:
        raise UsageError(
            "usage", "what? Name requirements", hint="gpulayer env prepare -r requirements.txt"
        )
    server = server_for({**flags, "target": None})
    spec = _spec(words, flags, server)
    with ExitStack() as stack:
        origin, envelope = _world(server, stack)
        wire = connect_to(server)
        verdicts = wire.call("POST", "/v1/plan", {"spec": spec, "origin": origin})["verdicts"]
        matching = [one for one in verdicts if one["fit"] != "never"]
        away = {one["worker_name"]: why for one in matching if (why := _away(one))}
        there = [one for one in matching if one["worker_name"] not in away]
        if not matching:
            raise SchedulingError(
                "no-matching-worker",
                "no worker matches what was asked for",
                hint="gpulayer workers",
            )
        body = _travels(spec, server, wire) if there else spec
        told: list[dict[str, Any]] = [
            {"worker": name, "state": "away", "why": why, "job": None} for name, why in away.items()
        ]
        if there:
            jobs = [_pinned(body, one["worker_id"]) for one in there]
            batch = {"jobs": [{"spec": job} for job in jobs], "origin": origin}
            accepted = wire.call("POST", "/v1/jobs/batch", batch | {"envelope_id": envelope})[
                "jobs"
            ]
            told += _followed(wire, there, [job["id"] for job in accepted], not quiet)
    if as_json:
        render.json_document({"workers": told})
    elif not quiet:
        for one in told:
            if one["state"] == "away":
                render.say(render.plain(f"{one['worker']}: not prepared: {one['why']}"))
    if any(one["state"] == "cancelled" for one in told):
        return INTERRUPTED
    return int(any(one["state"] != "ready" for one in told))


def _spec(
    words: Sequence[str], flags: Mapping[str, Any], server: Elsewhere | None
) -> dict[str, Any]:
    names = ("gpus", "gpu_memory", "accelerator", "profile", "python")
    said = {name: flags[name] for name in names} | {
        "name": NAME,
        "on": flags["on"] or (ANYWHERE if server is not None else None),
        "data": list(flags["data"]),
        "requirements": requirements_of(words),
    }
    spec = spec_of({"kind": "command", "command": list(COMMAND)}, said)
    if flags["prepare_timeout"]:
        seconds = parse_duration(flags["prepare_timeout"], "--timeout")
        spec["environment"]["timeout_seconds"] = seconds
    return spec


def _pinned(spec: Mapping[str, Any], worker: str) -> dict[str, Any]:
    """On that worker, beside whatever runs there."""
    resources, placement = spec.get("resources") or {}, spec.get("placement") or {}
    kept = {"python": resources["python"]} if "python" in resources else {}
    targets = {key: value for key, value in placement.items() if "target" in key}
    return {
        **{key: spec[key] for key in ("name", "workload", "environment")},
        "resources": {**kept, "cpu_cores": CORES},
        "placement": {**targets, "worker_ids": [worker]},
    }


def _world(server: Elsewhere | None, stack: ExitStack) -> tuple[dict[str, Any], str | None]:
    """The origin, and of a terminal here the envelope, which is kept until the jobs are known."""
    if server is not None:
        from gpulayer.sdk.far import far_origin

        return far_origin(COMMAND), None
    from gpulayer.sdk import world
    from gpulayer.sdk.origin import origin_of
    from gpulayer.sdk.places import Places

    connect_to(None)
    seen = world.of_terminal(list(COMMAND))
    stack.callback(seen.close)
    return origin_of(seen, list(COMMAND)), stack.enter_context(world.given(Places.find(), seen))


def _travels(spec: dict[str, Any], server: Elsewhere | None, wire: Wire) -> dict[str, Any]:
    """With its file as its source, where that is read elsewhere: nothing else of the folder."""
    name = (spec.get("environment") or {}).get("file")
    if not name or server is None:
        return spec
    from gpulayer.sdk.packing import pack

    folder, base = os.path.dirname(name), os.path.basename(name)
    with tempfile.TemporaryDirectory(prefix="gpulayer-") as copy:
        os.makedirs(os.path.join(copy, folder), exist_ok=True)
        for one in {base, *((LOCK, PROJECT) if base in (LOCK, PROJECT) else ())}:
            path = os.path.join(folder, one)
            if os.path.isfile(path):
                shutil.copyfile(path, os.path.join(copy, path))
        made = pack(spec, folder=copy)
        made.send(wire)
    return made.spec


def _away(verdict: Mapping[str, Any]) -> str:
    """Why it gets no job now, though it matches; empty: it does."""
    for check in verdict["checks"]:
        if check["name"] == "state" and check["fit"] != "yes":
            return str(check["have"])
    return ""


def _followed(
    wire: Wire, there: Sequence[Mapping[str, Any]], jobs: Sequence[str], is_talking: bool
) -> list[dict[str, Any]]:
    """What came of each, told as it comes. Ctrl-C ends them all."""
    waits = dict(zip(jobs, (one["worker_name"] for one in there), strict=True))

    def follow(job_id: str) -> dict[str, Any]:
        mine = wire.aside()
        try:
            while True:
                job = mine.call("GET", job_path(job_id, wait=PARK), park=PARK)
                if job["finished_at"] is not None:
                    break
            error = explained(mine, job) if job["state"] not in ("succeeded", "cancelled") else None
        finally:
            mine.close()
        told = _told(waits.pop(job_id), job, error)
        if is_talking:
            _say(told, error)
        return told

    def text() -> str:
        names = sorted(waits.copy().values())
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return f"preparing on {', '.join(names[:5])}{more}"

    pause = FIRST_SECONDS if is_talking else None
    pool = ThreadPoolExecutor(min(AT_ONCE, len(jobs)), "gpulayer-prepare")
    with waiting.told_while(text, pause, AGAIN_SECONDS):
        try:
            futures = [pool.submit(follow, job) for job in jobs]
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            wire.call("POST", "/v1/jobs/cancel", {"jobs": list(jobs), "mode": "term"})
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=False)


def _told(worker: str, job: Mapping[str, Any], error: GPULayerError | None) -> dict[str, Any]:
    told: dict[str, Any] = {"worker": worker, "job": job["id"], "why": ""}
    if error is not None:
        return told | {"state": "failed", "why": error.message, "error": error.to_json()}
    if job["state"] == "cancelled":
        return told | {"state": "cancelled"}
    steps = {step["name"]: step for step in (job.get("preparation") or {}).get("steps") or ()}
    step = steps.get("environment", {})
    return told | {"state": "ready", "seconds": step.get("seconds"), "note": step.get("note")}


def _say(told: Mapping[str, Any], error: GPULayerError | None) -> None:
    if error is not None:
        render.error(error)
        return
    how = told["state"]
    if how == "ready":
        how = f"ready in {duration_text(told['seconds'] or 0.0)} ({told['note']})"
    render.say(render.plain(f"{told['worker']}: {how}"))
