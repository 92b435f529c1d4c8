"""What a job was and what it ran in, exactly: by digest where there is one. No value of a variable
and no secret stands in it. Pure but for `world_of`, which asks the plane for one small artifact.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpulayer.api.transfers import Client
from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import NotFoundError
from gpulayer.sdk.fetching import copy

World = Mapping[str, Any]
"""As `worker.worlds` writes it; {} where it is not known."""


def provenance(client: Client, job: Mapping[str, Any]) -> dict[str, Any]:
    """Of a job as the plane tells it."""
    return account(job, lambda digest: world_of(client, digest))


def world_of(client: Client, digest: str | None) -> World:
    """{} where it was never told, or is not kept any more."""
    if not digest:
        return {}
    with tempfile.TemporaryFile() as file:
        try:
            copy(client, digest, file)
        except NotFoundError:
            return {}
        file.seek(0)
        found = json.loads(file.read())
    return found if isinstance(found, dict) else {}


def account(job: Mapping[str, Any], world: Callable[[str | None], World]) -> dict[str, Any]:
    """`world`: from a digest to what it stands for."""
    spec, origin = job["spec"], job.get("origin") or {}
    return {
        "job": job["id"],
        "retry_of": job.get("retry_of"),
        "attempt": job.get("attempt"),
        "what": _what(spec["workload"]),
        "code": _code(spec["workload"], origin),
        "inputs": {one["path"]: bare(one.get("url") or one["artifact"]) for one in _inputs(spec)},
        "image": spec.get("image"),
        "environment": {
            key: value
            for key, value in (spec.get("environment") or {}).items()
            if key in ("requirements", "file", "preload")
        },
        "env": sorted(spec.get("env") or ()),
        "secrets": sorted(secret["name"] for secret in spec.get("secrets") or ()),
        "data": list(spec.get("data") or ()),
        "ran_in": [
            {"node": node["node"], "world": node.get("world"), **world(node.get("world"))}
            for node in nodes_of(job)
        ],
        "ended": {key: job.get(key) for key in ("state", "reason", "exit_code")},
        "result": _result(job),
        "outputs": {one["path"]: one["digest"] for one in job.get("outputs") or ()},
    }


def nodes_of(job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """{node, world} of each; of an array, one for each world that its elements ran in."""
    worlds = (job.get("array") or {}).get("worlds")
    if worlds:
        return [{"node": at, "world": world} for at, world in enumerate(worlds)]
    return job.get("nodes") or [{"node": 0, "world": job.get("world")}]


def bare(address: str) -> str:
    """The digest of an artifact's address; another address as it is."""
    return address.removeprefix(ADDRESS)


def digest_of(value: Any) -> str:
    """Of a JSON value: equal for equal ones."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def lines(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and value, for people."""
    what, code = told["what"], told["code"]
    yield "job", told["job"]
    yield "what", " ".join(what.get("argv") or [str(what.get("function") or what.get("script"))])
    if what.get("arguments"):
        yield "arguments", what["arguments"]
    if code.get("source"):
        yield "source", code["source"]
    elif code.get("folder"):
        yield "folder", f"{code['folder']}, as it was"
    if code.get("commit"):
        yield "commit", code["commit"] + (", with changes" if code.get("dirty") else "")
    for path, digest in told["inputs"].items():
        yield "input", f"{path} {digest}"
    if told["image"]:
        yield "image", told["image"]
    for name in ("env", "secrets", "data"):
        if told[name]:
            yield name, ", ".join(told[name])
    for node in told["ran_in"]:
        yield from _node(node)
    for path, digest in told["outputs"].items():
        yield "output", f"{path} {digest}"
    if told["result"]:
        yield "result", told["result"]


def _node(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not node.get("host"):
        yield "ran in", "not told" if node.get("world") is None else "no longer kept"
        return
    system = f"{node['os']} {node['kernel']} {node['cpu_arch']}"
    yield "worker", f"{node['worker']}, {system}, gpulayer {node['gpulayer']}"
    for gpu in node.get("gpus") or ():
        yield "gpu", f"{gpu['name']} {gpu['uuid']}, driver {node.get('driver') or '?'}"
    for name in ("python", "environment"):
        if found := node.get(name):
            count = found.get("packages")
            has = "packages not known" if count is None else f"{len(count)} packages"
            where = found.get("path") or found.get("key")
            yield name, f"{found.get('version') or '?'} ({where}), {has}"


def _what(work: Mapping[str, Any]) -> dict[str, Any]:
    if work["kind"] == "command":
        return {"kind": "command", "argv": list(work["command"])}
    if work["kind"] == "function":
        call = [work.get("args") or [], work.get("kwargs") or {}]
        return {"kind": "function", "function": work["entrypoint"], "arguments": digest_of(call)}
    names = ("num_workers", "procs_per_worker", "comm_backend", "launcher")
    shape = {name: work[name] for name in names if name in work}
    if work.get("function"):
        call = [work.get("function_args") or [], work.get("function_kwargs") or {}]
        shape |= {"function": work["function"], "arguments": digest_of(call)}
    else:
        shape["argv"] = [work["entrypoint"], *work.get("args", ())]
    return {"kind": "distributed", **shape}


def _code(work: Mapping[str, Any], origin: Mapping[str, Any]) -> dict[str, Any]:
    source = {"source": bare(work["source"])} if work.get("source") else {}
    return {**source, "folder": origin.get("cwd"), **(origin.get("code") or {})}


def _inputs(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from spec.get("inputs") or ()
    if spec.get("stdin"):
        yield {"path": "(standard input)", "artifact": spec["stdin"]}


def _result(job: Mapping[str, Any]) -> str | None:
    found = job.get("result") or {}
    return digest_of(found["value"]) if "value" in found else None
