"""Environments of jobs, made ahead of time, listed, removed: what `gpulayer env` and programs say.

They are made by one short job on every worker that matches, pinned to it: so a preparation has all
that those of jobs have (its phase, its time limit, its end with a worker that is lost, the
terminal's variables for one here), and what it makes is what a job there would find. Such jobs are
of a session of their own, by which a plane tells them from work.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from gpulayer.api import transfers
from gpulayer.api.paths import job_path
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import parse_duration
from gpulayer.contracts.ids import PREPARES
from gpulayer.contracts.requirement_files import LOCK, PROJECT
from gpulayer.errors import GPULayerError, NotFoundError, RefusedError, SchedulingError, UsageError
from gpulayer.sdk import local_packages
from gpulayer.sdk.describe import ANYWHERE, quantity, spec_of
from gpulayer.sdk.requirements import requirements_of

COMMAND = ("python", "-c", "")
"""Its Python starts and ends."""
OPTIONS = ("gpus", "gpu_memory", "accelerator", "profile", "python", "on", "data")
"""By which workers are chosen, as by a job."""
CORES = 0.01
PARK, ANSWERS = 30.0, 60.0
KEY = 12
"""Characters of a key that are shown."""


class Call(Protocol):
    def __call__(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, park: float = 0.0
    ) -> Any: ...


# --- ahead of time ---------------------------------------------------------------------------


class Preparation:
    """The jobs of one `env prepare`, submitted."""

    def __init__(
        self, away: Mapping[str, str], workers: Mapping[str, str], seconds: float | None
    ) -> None:
        self.away = away
        """Workers that match and get no job now: name -> why."""
        self.workers = workers
        """Job -> the name of its worker."""
        self._seconds = seconds
        self._began = SystemClock().monotonic()

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Of the workers that are away."""
        return [
            {"worker": name, "state": "away", "why": why, "job": None}
            for name, why in self.away.items()
        ]

    def wait(self, call: Call, job_id: str) -> tuple[dict[str, Any], str]:
        """That job once it has ended, and why it was given up: it may wait for room as long as the
        environment may take, where that was said."""
        gave_up = ""
        while True:
            job: dict[str, Any] = call("GET", job_path(job_id, wait=self._pause()), park=PARK)
            if job["finished_at"] is not None:
                return job, gave_up if job["state"] == "cancelled" else ""
            if job["state"] == "queued" and self._left() <= 0 and not gave_up:
                gave_up = why_queued(job)
                call("POST", job_path(job_id, "cancel"), {"mode": "term"})

    def cancel(self, call: Call) -> None:
        call("POST", "/v1/jobs/cancel", {"jobs": list(self.workers), "mode": "term"})

    def queued(self, call: Call) -> dict[str, str]:
        """Those that wait for room: job -> why."""
        found = call("GET", f"/v1/jobs?name={PREPARES}&limit=1000")["jobs"]
        mine = (job for job in found if job["id"] in self.workers)
        return {job["id"]: why_queued(job) for job in mine if job["state"] == "queued"}

    def _left(self) -> float:
        if self._seconds is None:
            return PARK
        return self._began + self._seconds - SystemClock().monotonic()

    def _pause(self) -> float:
        left = self._left()
        return min(PARK, left) if left > 0 else PARK


def why_queued(job: Mapping[str, Any]) -> str:
    why = str(job.get("decision_summary") or job.get("message") or "its turn")
    return why.removeprefix("waits: ")


def described(
    requirements: Sequence[str], options: Mapping[str, Any], timeout: Any, *, is_far: bool
) -> dict[str, Any]:
    """The job by which workers are chosen. Raises UsageError."""
    if isinstance(requirements, str):
        requirements = [requirements]
    if not requirements:
        raise UsageError(
            "usage", "what? Name requirements", hint="gpulayer env prepare -r requirements.txt"
        )
    if strange := [name for name in options if name not in OPTIONS]:
        raise UsageError(
            "unknown-field",
            f"'{strange[0]}' does not choose a worker for an environment",
            why=f"options: {', '.join(OPTIONS)}",
        )
    said = {
        **options,
        "name": PREPARES,
        "on": options.get("on") or (ANYWHERE if is_far else None),
        "requirements": requirements_of(requirements),
    }
    spec = spec_of({"kind": "command", "command": list(COMMAND)}, said)
    if timeout:
        spec["environment"]["timeout_seconds"] = quantity(timeout, parse_duration)
    return spec


def begin(
    client: transfers.Client,
    spec: dict[str, Any],
    origin: Mapping[str, Any],
    envelope: str | None,
    *,
    is_far: bool,
) -> Preparation:
    """On every worker that matches. Raises `no-matching-worker`."""
    origin = {**origin, "session": PREPARES}
    verdicts = client.call("POST", "/v1/plan", {"spec": spec, "origin": origin})["verdicts"]
    matching = [one for one in verdicts if one["fit"] != "never"]
    if not matching:
        raise SchedulingError(
            "no-matching-worker", "no worker matches what was asked for", hint="gpulayer workers"
        )
    away = {one["worker_name"]: why for one in matching if (why := _away(one))}
    there = [one for one in matching if one["worker_name"] not in away]
    jobs: list[Mapping[str, Any]] = []
    if there:
        body = _travelling(spec, client) if is_far else spec
        specs = [{"spec": _pinned(body, one["worker_id"])} for one in there]
        batch = {"jobs": specs, "origin": origin, "envelope_id": envelope or None}
        jobs = client.call("POST", "/v1/jobs/batch", batch)["jobs"]
    named = zip(jobs, there, strict=True)
    seconds = spec["environment"].get("timeout_seconds")
    return Preparation(away, {job["id"]: one["worker_name"] for job, one in named}, seconds)


def document(
    worker: str, job: Mapping[str, Any], error: GPULayerError | None, gave_up: str = ""
) -> dict[str, Any]:
    """What came of it on that worker, as `--json` prints it."""
    told: dict[str, Any] = {"worker": worker, "job": job["id"], "why": ""}
    if gave_up:
        return told | {"state": "busy", "why": gave_up}
    if error is not None:
        return told | {"state": "failed", "why": error.message, "error": error.to_json()}
    if job["state"] == "cancelled":
        return told | {"state": "cancelled"}
    steps = {step["name"]: step for step in (job.get("preparation") or {}).get("steps") or ()}
    step = steps.get("environment", {})
    return told | {"state": "ready", "seconds": step.get("seconds"), "note": step.get("note")}


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


def _travelling(spec: dict[str, Any], client: transfers.Client) -> dict[str, Any]:
    """With its file as its source: nothing else of the folder, unless packages of the folder are
    in the lock; then all of it, as with a job."""
    name = (spec.get("environment") or {}).get("file")
    if not name:
        return spec
    from gpulayer.sdk.packing import pack

    if local_packages.are_in(name):
        made = pack(spec)
        made.send(client)
        return made.spec
    folder, base = os.path.dirname(name), os.path.basename(name)
    with tempfile.TemporaryDirectory(prefix="gpulayer-") as copy:
        os.makedirs(os.path.join(copy, folder), exist_ok=True)
        for one in {base, *((LOCK, PROJECT) if base in (LOCK, PROJECT) else ())}:
            path = os.path.join(folder, one)
            if os.path.isfile(path):
                shutil.copyfile(path, os.path.join(copy, path))
        made = pack(spec, folder=copy)
        made.send(client)
    return made.spec


def _away(verdict: Mapping[str, Any]) -> str:
    """Why it gets no job now, though it matches; empty: it does."""
    for check in verdict["checks"]:
        if check["name"] == "state" and check["fit"] != "yes":
            return str(check["have"])
    return ""


# --- what there is ---------------------------------------------------------------------------


def listed(call: Call, on: str | None = None) -> list[dict[str, Any]]:
    """What each worker has: {id, name, state, why, environments}; None where it did not answer.
    Raises `worker-not-found`."""
    path = f"/v1/caches?what=environments&wait={ANSWERS / 2:g}"
    found = call("GET", path, park=ANSWERS)["workers"]
    workers = [one for one in found if on in (None, one["id"], one["name"])]
    if on is not None and not workers:
        raise NotFoundError(
            "worker-not-found", f"no worker is called {on!r}", hint="gpulayer workers"
        )
    return [
        {key: one[key] for key in ("id", "name", "state", "why")}
        | {"environments": (one["answer"] or {}).get("environments")}
        for one in workers
    ]


def removed(
    call: Call, keys: Sequence[str], *, unused: bool = False, on: str | None = None
) -> list[dict[str, Any]]:
    """What each worker did: {id, name, state, why, answer: {removed, kept, unknown}}."""
    if bool(keys) is unused:
        raise UsageError("usage", "which? Name keys, or --unused", hint="gpulayer env ls")
    body: dict[str, Any] = {"keys": list(keys)} if keys else {"unused": unused}
    if on is not None:
        body["workers"] = [on]
    done = call("POST", "/v1/environments/remove", body, park=ANSWERS * 1.5)["workers"]
    return list(done)


def complaint(done: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> GPULayerError | None:
    """What is wrong with a removal of those keys: one is in use, or nobody has it."""
    kept = [(worker["name"], one) for worker, one in of_all(done, "kept")]
    if kept and keys:
        return _in_use(*kept[0])
    lacking = [
        key
        for key in keys
        if all(key in (one["answer"] or {"unknown": [key]})["unknown"] for one in done)
    ]
    if lacking and all(one["answer"] is not None for one in done):
        return NotFoundError(
            "environment-not-found",
            f"no environment has the key {lacking[0]!r}",
            hint="gpulayer env ls",
        )
    return None


def of_all(
    done: Sequence[Mapping[str, Any]], what: str
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Each of that list of the answers, with its worker."""
    for worker in done:
        for one in (worker["answer"] or {}).get(what, ()):
            yield worker, one


def _in_use(worker: str, kept: Mapping[str, Any]) -> RefusedError:
    users = kept["used_by"]
    why = f"{users[0]} uses it" if users else str(kept["why"])
    return RefusedError(
        "environment-in-use",
        f"the environment {kept['key'][:KEY]} of {worker} stays",
        why=why,
        hint=(f"gpulayer wait {users[0]}", f"gpulayer cancel {users[0]}")
        if users
        else "gpulayer env ls",
    )
