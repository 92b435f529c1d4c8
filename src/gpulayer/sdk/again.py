"""The command line that would submit a job like a given one, with some of its options changed.

Messages use it so that the line to paste is whole: `gpulayer run --gpus 0 -- python train.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 300
"""Characters; a longer line helps nobody."""


def command_line(spec: Mapping[str, Any], verb: str = "run", **changed: str | None) -> str | None:
    """`changed` are flags by name (`timeout="4h"`); None leaves one out. None instead of a line:
    the job is a function, whose arguments and folder no line can carry, or the line is too long.
    """
    workload = spec.get("workload") or {}
    if workload.get("kind") != "command":
        return None
    flags = {name: value for name, value in _flags(spec) if name not in changed}
    flags |= {name: value for name, value in changed.items() if value is not None}
    words = ["gpulayer", verb]
    for name, value in flags.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{name.replace('_', '-')}", str(one)]
    text = shlex.join([*words, "--", *workload["command"]])
    return text if len(text) <= LONGEST else None


def _flags(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every flag that was said, in the order of `run --help`."""
    wants, where = spec.get("resources") or {}, spec.get("placement") or {}
    if wants.get("gpu_count"):
        yield "gpus", _gpus(wants)
    elif wants.get("gpu_memory_gb"):
        yield "gpu_memory", f"{wants['gpu_memory_gb']:g}"
    for flag, field in (("cpus", "cpu_cores"), ("memory", "memory_gb"), ("disk", "disk_gb")):
        if wants.get(field):
            yield flag, f"{wants[field]:g}"
    if wants.get("accelerator") not in (None, "gpu"):
        yield "accelerator", wants["accelerator"]
    for flag in ("profile", "python"):
        if wants.get(flag):
            yield flag, wants[flag]
    environ = spec.get("environment") or {}
    if needs := [*environ.get("requirements", ()), *filter(None, [environ.get("file")])]:
        yield "requirement", needs
    if spec.get("image"):
        yield "image", spec["image"]
    if where.get("worker_ids"):
        yield "on", where["worker_ids"][0]
    for name, value in (where.get("worker_labels") or {}).items():
        yield "on", f"{name}={value}"
    if spec.get("env"):
        yield "env", [f"{name}={value}" for name, value in spec["env"].items()]
    if spec.get("data"):
        yield "data", list(spec["data"])
    if kept := spec.get("checkpoint"):
        every = kept.get("interval_seconds")
        yield "checkpoint", f"{kept['path']}:{every:g}s" if every else kept["path"]
    if spec.get("after"):
        yield "after", [f"{one['job']}:{one.get('when', 'ok')}" for one in spec["after"]]
    if spec.get("secrets"):
        yield "secret", [_secret(secret) for secret in spec["secrets"]]
    if spec.get("timeout_seconds"):
        yield "timeout", f"{spec['timeout_seconds']:g}s"
    attempts = (spec.get("retry") or {}).get("max_attempts", 1)
    if attempts > 1:
        yield "retries", attempts - 1


def _gpus(wants: Mapping[str, Any]) -> str:
    kind = ",".join(wants.get("gpu_models") or ())
    if not kind and wants.get("gpu_memory_gb"):
        kind = f"{wants['gpu_memory_gb']:g}GB"
    return f"{kind}:{wants['gpu_count']}" if kind else str(wants["gpu_count"])


def _secret(secret: Mapping[str, Any]) -> str:
    name, key = secret["name"], secret.get("key") or secret["name"]
    if secret.get("source") == "file":
        return f"{name}=@{key}"
    return name if key == name else f"{name}={key}"
