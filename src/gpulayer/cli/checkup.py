"""What `doctor` looks at. Every look is one function, answers at once, and may fail on its own."""

from __future__ import annotations

import os
import platform
import shutil
from typing import TYPE_CHECKING, Any

from gpulayer import _version
from gpulayer.api.wire import Wire
from gpulayer.cli import far_checkup
from gpulayer.errors import GPULayerError
from gpulayer.sdk.places import Places

if TYPE_CHECKING:
    from gpulayer.gpu.machine import Machine

FREE_BYTES = 1 << 30
"""Less free space than this is worth a word."""
CONTAINMENT = {
    "cgroup": "a cgroup for each task: nothing of it can get away",
    "keeper": "a keeper process for each task (no writable cgroup here)",
}


def look(places: Places) -> dict[str, Any]:
    """The facts, the processes of this home, and a note for each thing that is odd."""
    notes: list[str] = []
    processes = _processes(places, notes)
    plane = _plane(places, processes, notes)
    containment = _containment(places, processes)
    far = far_checkup.look(places, processes, notes)
    return {
        "version": _version.__version__,
        "python": platform.python_version(),
        "sqlite": _sqlite(),
        "home": _home(places, notes),
        "runtime": places.runtime,
        "containment": containment,
        "plane": plane,
        **far,
        **torch_of_terminal(),
        "processes": processes,
        "notes": notes,
    }


def torch_of_terminal(machine: Machine | None = None, python: str | None = None) -> dict[str, str]:
    """`{"torch": ...}`: whether the torch of this terminal's Python can compute on the GPUs, tried
    in a child process. Empty where there is no sign of a GPU or no torch."""
    from gpulayer.gpu.discovery import discover_fast
    from gpulayer.gpu.interpreters import describe
    from gpulayer.gpu.machine import Machine
    from gpulayer.gpu.probe import probe_torch

    machine = machine or Machine()
    if discover_fast(machine).gpus is not None:
        return {}
    python = python or _python_of_terminal()
    version = (describe(python, run=machine.run).frameworks or {}).get("torch")
    if version is None:
        return {}
    report = probe_torch(python, run=machine.run)
    works = "computes on the GPU" if report.cuda_devices or report.mps else "does not use the GPU"
    return {"torch": f"{version} {works}" + (f": {report.why}" if report.why else "")}


def _python_of_terminal() -> str:
    from gpulayer.sdk.world import of_terminal

    seen = of_terminal(["python"])
    seen.close()
    return seen.interpreter.path


def _sqlite() -> str:
    from gpulayer.storage.wal_bug import VERSION, has_wal_bug

    number = ".".join(map(str, VERSION))
    bug = " (has the WAL-reset bug, which needs two writers; GPUlayer has one)"
    return number + (bug if has_wal_bug() else "")


def _home(places: Places, notes: list[str]) -> str:
    if places.notice:
        notes.append(places.notice)
    folder = places.state
    while folder != "/" and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        notes.append(f"{folder} has {free / 1e9:.1f} GB left; see: gpulayer gc --dry-run")
    return places.home


def _processes(places: Places, notes: list[str]) -> list[dict[str, Any]]:
    from gpulayer.sdk.processes import running

    found: list[dict[str, Any]] = []
    there = running(places)
    supervisors = {str(pid) for kind, pid in there if kind == "supervisor"}
    for kind, pid in there:
        state, parent = _state_of(pid)
        if kind == "supervisor" and parent in supervisors:
            kind = "keeper"  # forked by it, so that it looks like it
        entry: dict[str, Any] = {"kind": kind, "pid": pid}
        if state == "T":
            entry["note"] = "stopped"
            notes.append(f"the {kind} (pid {pid}) is stopped; wake it: kill -CONT {pid}")
        found.append(entry)
    kinds = [entry["kind"] for entry in found]
    if found and "plane" not in kinds:
        notes.append("these processes have no plane; the next command starts one")
    notes += [
        f"there are {kinds.count(kind)} of kind {kind}; one is on its way out"
        for kind in ("plane", "agent")
        if kinds.count(kind) > 1
    ]
    return found + _tasks(places, found)


def _tasks(places: Places, processes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The leaders of the jobs that run, as the supervisor knows them."""
    reply = _ask_supervisor(places, processes, "list")
    return [
        {"kind": "job", "pid": task["pid"], "note": task["job_id"]}
        for task in reply.get("tasks", ())
        if task["state"] == "running" and task.get("pid")
    ]


def _containment(places: Places, processes: list[dict[str, Any]]) -> str:
    name = str(_ask_supervisor(places, processes, None).get("containment") or "")
    return CONTAINMENT.get(name, name or "known once a supervisor runs")


def _ask_supervisor(
    places: Places, processes: list[dict[str, Any]], op: str | None
) -> dict[str, Any]:
    """Its answer to `op`, or to the greeting; empty where there is none."""
    from gpulayer.runtime import frames
    from gpulayer.sdk.siblings import greeted

    if not any(entry["kind"] == "supervisor" and "note" not in entry for entry in processes):
        return {}
    try:
        with greeted(places) as (connection, hello):
            return hello if op is None else connection.call(op)
    except (OSError, EOFError, frames.Refused, frames.ProtocolError):
        return {}


def _plane(places: Places, processes: list[dict[str, Any]], notes: list[str]) -> str:
    if any(entry["kind"] == "plane" and "note" in entry for entry in processes):
        return "stopped"
    try:
        wire = Wire(places.plane_socket, tries=1)
        found = wire.call("GET", "/v1/version")
        front = wire.call("GET", "/v1/doctor").get("serves") if found["kind"] == "serve" else None
    except GPULayerError as error:
        if any(entry["kind"] == "plane" for entry in processes):
            notes.append(f"the plane does not answer: {error.why or error.message}")
            return "does not answer"
        return "not running; the next command starts it"
    if found["version"] != _version.__version__:
        notes.append(f"the plane is of version {found['version']}; it is replaced when it can be")
    told = f"{found['kind']}, version {found['version']}, pid {found['pid']}"
    if not front:
        return told
    pin = f"sha256.{front['fingerprint']}" if front["fingerprint"] else "no TLS"
    return f"{told}, at {front['address']}, {pin}"


def _state_of(pid: int) -> tuple[str, str]:
    """One letter, and the parent, as in proc_pid_stat(5); empty where there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return "", ""
    return state, parent
