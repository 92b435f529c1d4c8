"""From what a person says about a job to its spec: the same words for flags and for keywords.

Only fields that were set go into the spec. Nothing is decided here: the plane validates, and
refuses by name. Light enough for the command line: no model is built.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpulayer.contracts.durations import parse_duration, parse_gpus, parse_memory_gb
from gpulayer.contracts.requirement_files import names_a_file
from gpulayer.errors import UsageError
from gpulayer.sdk.folder import working_folder

OPTIONS = (
    "name", "gpus", "gpu_memory", "accelerator", "cpus", "memory", "disk", "profile", "python",
    "frameworks", "on", "priority", "strategy", "labels", "env", "secrets", "timeout", "retries",
    "retry_on", "on_unschedulable", "requirements", "preload", "reuse", "cache", "image",
    "source", "inputs", "outputs", "data", "checkpoint", "array", "after",
)  # fmt: skip
"""Every word that `run`, `submit`, `@gl.remote` and `gl.submit` understand about a job."""

ANYWHERE = "any"
"""What `on` means where a server is chosen and nothing is said; without a server it is `here`."""

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""A word that names a function, `module:function`."""


def spec_of(workload: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of `workload` with `options`; None and empty values mean 'not said'.

    Raises UsageError for an unknown word or a malformed quantity.
    """
    require_known(options)
    said = {key: value for key, value in options.items() if value not in (None, (), [], {}, "")}
    spec: dict[str, Any] = {"workload": dict(workload)}
    for field, value in (
        ("name", said.get("name") or default_name(workload)),
        ("resources", _resources(said)),
        ("placement", _placement(said)),
        ("env", dict(said.get("env", {}))),
        ("secrets", [_secret(secret) for secret in said.get("secrets", ())]),
        ("labels", dict(said.get("labels", {}))),
        ("timeout_seconds", quantity(said.get("timeout"), parse_duration)),
        ("priority", said.get("priority")),
        _again(said, is_distributed=workload["kind"] == "distributed"),
        ("outputs", list(said.get("outputs", ()))),
        ("data", list(said.get("data", ()))),
        ("checkpoint", _checkpoint(said.get("checkpoint"))),
        ("environment", _environment(said)),
        ("reuse", said.get("reuse")),
        ("cache", bool(said.get("cache")) or None),
        ("image", said.get("image")),
        ("array", _array(said.get("array"))),
        ("after", [_after(job) for job in said.get("after", ())]),
    ):
        if value not in (None, {}, []):
            spec[field] = value
    return spec


def require_known(options: Mapping[str, Any]) -> None:
    """Refuse a word that nobody knows, with the nearest one."""
    for name in options:
        if name not in OPTIONS:
            import difflib

            near = difflib.get_close_matches(name, OPTIONS, n=1)
            raise UsageError(
                "unknown-field",
                f"'{name}' is not an option of a job",
                why=f"did you mean '{near[0]}'?" if near else f"options: {', '.join(OPTIONS)}",
            )


def default_name(workload: Mapping[str, Any]) -> str | None:
    """`train` for `python train.py`, `hello` for `./hello`, `square` for `m:square`."""
    if workload["kind"] != "command":
        word = str(workload.get("function") or workload["entrypoint"]).rpartition(":")[2]
    else:
        words: Sequence[str] = workload["command"]
        programs = [word for word in words[1:] if not word.startswith("-")]
        is_python = bool(words) and os.path.basename(words[0]).startswith("python")
        word = programs[0] if is_python and programs and "-c" not in words else "".join(words[:1])
    stem = os.path.splitext(os.path.basename(word))[0]
    cleaned = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem)
    return cleaned.strip("-")[:40] or None


def _resources(said: Mapping[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    if "gpus" in said:
        request = parse_gpus(str(said["gpus"]))
        wanted["gpu_count"] = request.count
        if request.models:
            wanted["gpu_models"] = list(request.models)
        if request.memory_gb is not None:
            wanted["gpu_memory_gb"] = request.memory_gb
        if request.count and "profile" not in said:
            wanted["accelerator"] = "gpu"
    for word, field, read in (
        ("accelerator", "accelerator", None),
        ("gpu_memory", "gpu_memory_gb", parse_memory_gb),
        ("cpus", "cpu_cores", None),
        ("memory", "memory_gb", parse_memory_gb),
        ("disk", "disk_gb", parse_memory_gb),
        ("profile", "profile", None),
        ("python", "python", None),
        ("frameworks", "frameworks", dict),
    ):
        if word in said:
            wanted[field] = quantity(said[word], read) if read else said[word]
    return wanted


def _placement(said: Mapping[str, Any]) -> dict[str, Any]:
    where = said.get("on", "here")
    wanted: dict[str, Any] = {}
    if where in ("remote", "cloud"):
        wanted["target"] = where
    elif where not in ("here", "local"):  # wherever the plane has workers
        wanted |= {"target": "remote", "fallback_targets": ["local"]}
        if "=" in where:
            name, _, value = where.partition("=")
            wanted["worker_labels"] = {name: value}
        elif where != ANYWHERE:
            wanted["worker_ids"] = [where]
    for field in ("strategy", "on_unschedulable"):
        if field in said:
            wanted[field] = said[field]
    return wanted


def _secret(secret: str | Mapping[str, Any]) -> dict[str, Any]:
    """`NAME`, `NAME=VARIABLE`, `NAME=@FILE`, or the contract's own form."""
    if not isinstance(secret, str):
        return dict(secret)
    name, _, source = secret.partition("=")
    if source.startswith("@"):
        path = source[1:]
        whole = path if os.path.isabs(path) else os.path.join(working_folder(), path)
        return {"name": name, "source": "file", "key": os.path.normpath(whole)}
    return {"name": name, "source": "env", "key": source or name}


def _again(said: Mapping[str, Any], *, is_distributed: bool) -> tuple[str, dict[str, Any]]:
    """The field for it, and what that holds: a distributed job starts again as a whole."""
    field = "resume" if is_distributed else "retry"
    if "retries" not in said:
        if "retry_on" in said:
            raise UsageError("usage", "retry_on needs retries", hint="--retries 1")
        return field, {}
    reasons = list(said.get("retry_on", ())) or ["worker_lost", "failed"]
    if is_distributed:
        return field, {"max_restarts": said["retries"], "on": reasons}
    return field, {"max_attempts": said["retries"] + 1, "retry_on": reasons}


def _checkpoint(wish: Any) -> dict[str, Any]:
    """`DIR`, `DIR:INTERVAL` or the contract's own form. What follows the last colon is an interval
    where it is one."""
    if not isinstance(wish, str):
        return dict(wish or {})
    path, colon, interval = wish.rpartition(":")
    if colon:
        try:
            return {"path": path, "interval_seconds": parse_duration(interval)}
        except UsageError:
            pass
    return {"path": wish.rstrip("/")}


def _after(wish: Any) -> dict[str, Any]:
    """`JOB`, `JOB:any`, a job of the SDK, or the contract's own form."""
    if isinstance(wish, Mapping):
        return dict(wish)
    name, colon, when = str(getattr(wish, "id", wish)).rpartition(":")
    return {"job": name, "when": when} if colon else {"job": when}


def _array(wish: Any) -> dict[str, Any]:
    """A count, `0-99:3%8`, or the contract's own form."""
    if isinstance(wish, int):
        return {"count": wish}
    if isinstance(wish, str):
        from gpulayer.sdk.array_words import range_of

        return range_of(wish)
    return dict(wish or {})


def _environment(said: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in ("requirements", "preload"):
        if key in said:
            found[key] = [said[key]] if isinstance(said[key], str) else list(said[key])
    files = [need for need in found.get("requirements", ()) if names_a_file(need)]
    if len(files) > 1:
        raise UsageError(
            "usage",
            f"{' and '.join(files)}: a job may name one file that the worker reads",
            why="two locks are two sets of versions",
            hint="gpulayer help requirements",
        )
    if files:
        found["file"] = files[0]
        found["requirements"] = [need for need in found["requirements"] if need != files[0]]
    return {key: value for key, value in found.items() if value}


def quantity(value: Any, read: Callable[[Any], Any]) -> Any:
    """Text is read as people write it; a number is taken as it is."""
    return read(value) if isinstance(value, str) or read is dict else value
