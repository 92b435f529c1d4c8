"""The files by which a node of a distributed job is started, and the words that start it.

    FOLDER/ranks/node.json, rank.json     what `runtime.node_shim` and `rank_shim` are told
    FOLDER/ranks/<local rank>.out, .err   a named pipe for each output of each rank

Part of the step `workload`. The shims run on the job's own interpreter, which needs nothing of
GPUlayer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.clock import SystemIds
from gpulayer.runtime import distributed, segments
from gpulayer.worker import addresses
from gpulayer.worker.steps import plan
from gpulayer.worker.steps.plan import TaskPlan

_RUNTIME = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "runtime"))
_RANK_SHIM = os.path.join(_RUNTIME, "rank_shim.py")


def lay(task: TaskPlan, python: str, program: Sequence[str], *, results: bool) -> None:
    """Set the task's command and pipes for ranks that each run `program`. `results`: it is a
    function's runner, which is told where to write."""
    folder = plan.ranks(task.folder)
    os.makedirs(folder, 0o700, exist_ok=True)
    procs = int(task.workload.get("procs_per_worker") or 1)
    node = task.assignment.rank
    ranks = distributed.ranks_of(node, procs)
    task.pipes = [pipe for local, rank in enumerate(ranks) for pipe in _pipes(folder, local, rank)]
    grace = distributed.GRACE_SECONDS
    _write(folder, "rank.json", {"argv": list(program), "results": results, "grace": grace})
    _write(folder, "node.json", _node(task, python, node, procs))
    task.argv = [python, "-I", "-S", os.path.join(_RUNTIME, "node_shim.py"), folder]


def _node(task: TaskPlan, python: str, node: int, procs: int) -> dict[str, Any]:
    asked: Mapping[str, Any] = task.workload.get("rendezvous") or {}
    patience = float(asked.get("join_timeout_seconds") or 300)
    resources: Mapping[str, Any] = task.spec.get("resources") or {}
    nodes = list((task.assignment.gang or {}).get("nodes") or [{"name": "here"}])
    place = _place(task, asked, nodes)
    cores = float(resources.get("cpu_cores") or 1)
    return {
        **_launcher(task, python, patience, len(nodes), procs, place["address"]),
        "nodes": len(nodes),
        "node": node,
        **place,
        "names": [entry["name"] for entry in nodes],
        "join_seconds": patience,
        "scrub": distributed.scrub(),
        "defaults": distributed.defaults(procs, cores, _interface(place["address"])),
    }


def _launcher(
    task: TaskPlan, python: str, patience: float, nodes: int, procs: int, address: str
) -> dict[str, Any]:
    """Torchrun's words with those of a rank's shim, or what we set for each rank ourselves."""
    folder = plan.ranks(task.folder)
    job, node = task.assignment.job_id, task.assignment.rank
    if task.workload.get("launcher") == "direct":
        direct = distributed.variables(
            nodes=nodes, node=node, procs=procs, job=job, address=address, folder=folder
        )
        return {"direct": direct}
    words = distributed.torchrun(
        python, nodes=nodes, node=node, procs=procs, job=job, patience=patience, address=address
    )
    return {"launcher": [*words, python, "-I", "-S", _RANK_SHIM, folder]}


def _place(
    task: TaskPlan, asked: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Where the nodes meet: chosen by the first one, for this attempt alone, and told to the
    others. A node alone chooses its port when it starts."""
    port = int(asked.get("port") or 0)
    if len(nodes) == 1:
        return {"address": distributed.LOOPBACK, "port": port, "token": ""}
    if task.assignment.rank == 0:
        address = addresses.meeting_place(nodes)
        port = port or addresses.free_port(address)
        task.rendezvous = {"address": address, "port": port, "token": SystemIds().token(26)}
        task.rendezvous["probe"] = True  # the others know by it that they may offer their door
        return task.rendezvous
    told: Mapping[str, Any] = (task.assignment.gang or {})["rendezvous"]
    place = {"address": str(told["address"]), "port": int(told["port"]), "token": told["token"]}
    return {**place, "probe": bool(told.get("probe"))}


def _interface(address: str) -> str | None:
    """Of ours, on the way to where the nodes meet."""
    if address == distributed.LOOPBACK:
        return distributed.loopback(os.uname().sysname)
    return addresses.interface_of(addresses.own_address(address))


def _pipes(folder: str, local: int, rank: int) -> list[dict[str, Any]]:
    found = []
    for name, stream in (("out", segments.STDOUT), ("err", segments.STDERR)):
        path = os.path.join(folder, f"{local}.{name}")
        try:
            os.mkfifo(path, 0o600)
        except FileExistsError:
            pass  # an earlier try of the same task
        found.append({"path": path, "stream": stream, "rank": rank})
    return found


def _write(folder: str, name: str, value: Mapping[str, Any]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(os.path.join(folder, name), flags, 0o600), "w", encoding="ascii") as f:
        json.dump(value, f)
