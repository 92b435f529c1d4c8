"""From flags to a job: the spec with only the fields that were set, and nothing decided here.

The plane validates; this module only translates. What is malformed as a flag (a duration, `K=V`)
is refused with the flag's name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpulayer.cli.session import Command, options
from gpulayer.contracts.durations import parse_duration, parse_gpus, parse_memory_gb
from gpulayer.errors import NotFoundError, UsageError

STARTING = (
    "name", "gpus", "gpu_memory", "accelerator", "cpus", "memory", "disk", "profile", "python",
    "on", "target", "priority", "strategy", "label", "env", "env_file", "secret", "timeout",
    "retries", "retry_on", "on_unschedulable", "idempotency_key", "stdin",
)  # fmt: skip
"""Flags that run, submit and plan share, in the order of their help."""


def starting_options(command: Command) -> Command:
    """All flags that describe a job, and `--help-all` for the advanced ones."""
    command = click.option(
        "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_help_all,
        help="Show the advanced options too.",
    )(command)  # fmt: skip
    return options(*STARTING)(command)


def spec_of(workload: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The job for a workload and the flags that were given."""
    spec: dict[str, Any] = {"workload": dict(workload)}
    for field, value in (
        ("name", flags["name"] or default_name(workload)),
        ("resources", _resources(flags)),
        ("placement", _placement(flags)),
        ("env", _env(flags)),
        ("secrets", [_secret(text) for text in flags["secret"]]),
        ("labels", dict(_pair(text, "--label") for text in flags["label"])),
        ("timeout_seconds", _given(flags["timeout"], parse_duration)),
        ("priority", flags["priority"]),
        ("retry", _retry(flags)),
    ):
        if value not in (None, {}, []):
            spec[field] = value
    return spec


def default_name(workload: Mapping[str, Any]) -> str | None:
    """`train` for `python train.py`, `hello` for `./hello`, `square` for `m:square`."""
    if workload["kind"] == "function":
        word = workload["entrypoint"].rpartition(":")[2]
    else:
        words: Sequence[str] = workload["command"]
        programs = [w for w in words if not w.startswith("-")]
        is_python = Path(words[0]).name.startswith("python")
        word = programs[1] if is_python and len(programs) > 1 and "-c" not in words else words[0]
    cleaned = "".join(c if c.isascii() and c.isalnum() else "-" for c in Path(word).stem)
    return cleaned.strip("-")[:40] or None


def function_workload(entrypoint: str, args: str | None, kwargs: str | None) -> dict[str, Any]:
    """A function job from `module:function`, `--args` and `--kwargs`."""
    workload: dict[str, Any] = {"kind": "function", "entrypoint": entrypoint}
    if args is not None:
        workload["args"] = _json(args, "--args", list)
    if kwargs is not None:
        workload["kwargs"] = _json(kwargs, "--kwargs", dict)
    return workload


def _resources(flags: Mapping[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    if flags["gpus"] is not None:
        count, models, memory = parse_gpus(flags["gpus"])
        wanted["gpu_count"] = count
        if count:
            wanted["accelerator"] = flags["accelerator"] or "gpu"
        if models:
            wanted["gpu_models"] = list(models)
        if memory is not None:
            wanted["gpu_memory_gb"] = memory
    elif flags["accelerator"]:
        wanted["accelerator"] = flags["accelerator"]
    for flag, field, read in (
        ("gpu_memory", "gpu_memory_gb", parse_memory_gb),
        ("cpus", "cpu_cores", None),
        ("memory", "memory_gb", parse_memory_gb),
        ("disk", "disk_gb", parse_memory_gb),
        ("profile", "profile", None),
        ("python", "python", None),
    ):
        if flags[flag] is not None:
            wanted[field] = read(flags[flag]) if read else flags[flag]
    if flags["profile"] and wanted.get("accelerator") == "gpu":
        del wanted["accelerator"]  # the profile names the kind
    return wanted


def _placement(flags: Mapping[str, Any]) -> dict[str, Any]:
    where = flags["on"] or flags["target"]
    wanted: dict[str, Any] = {}
    if where == "any":
        wanted |= {"target": "remote", "fallback_targets": ["local"]}
    elif where in ("remote", "cloud"):
        wanted["target"] = where
    elif where and "=" in where:
        wanted["worker_labels"] = dict([_pair(where, "--on")])
    elif where and where not in ("here", "local"):
        wanted["worker_ids"] = [where]
    for field in ("strategy", "on_unschedulable"):
        if flags[field]:
            wanted[field] = flags[field]
    return wanted


def _env(flags: Mapping[str, Any]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name in flags["env_file"]:
        path = Path(name)
        if not path.is_file():
            raise NotFoundError("file-not-found", f"--env-file: {name} is not a file")
        lines = (line.strip() for line in path.read_text().splitlines())
        values |= dict(_pair(line, name) for line in lines if line and line[0] != "#")
    for text in flags["env"]:
        if "=" in text:
            values |= dict([_pair(text, "--env")])
        elif text in os.environ:
            values[text] = os.environ[text]
    return values


def _secret(text: str) -> dict[str, str]:
    name, _, source = text.partition("=")
    if source.startswith("@"):
        return {"name": name, "source": "file", "key": os.path.abspath(source[1:])}
    return {"name": name, "source": "env", "key": source or name}


def _retry(flags: Mapping[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = {}
    if flags["retries"] is not None:
        wanted["max_attempts"] = flags["retries"] + 1
        wanted["retry_on"] = list(flags["retry_on"]) or ["worker_lost", "failed"]
    elif flags["retry_on"]:
        raise UsageError("usage", "--retry-on needs --retries", hint="add --retries 1")
    return wanted


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError("usage", f"{flag}: '{text}' is not NAME=VALUE", hint=f"{flag} NAME=VALUE")
    return name, value


def _given(value: Any, read: Callable[[Any], Any]) -> Any:
    return None if value is None else read(value)


def _json(text: str, flag: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(
            "usage", f"{flag} is not JSON: {error}", hint=f"{flag} '{kind()}'"
        ) from None
    if not isinstance(value, kind):
        name = "list" if kind is list else "object"
        raise UsageError("usage", f"{flag} is not a JSON {name}", hint=f"{flag} '{kind()}'")
    return value


def _help_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        for parameter in ctx.command.params:
            if isinstance(parameter, click.Option) and parameter.name != "target":
                parameter.hidden = False
        click.echo(ctx.get_help())
        ctx.exit()
