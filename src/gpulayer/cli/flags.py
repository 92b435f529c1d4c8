"""From the flags of the starting verbs to the options of a job."""

from __future__ import annotations

import copy
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from gpulayer.cli.session import Command, chosen, options
from gpulayer.cli.table import FLAGS
from gpulayer.errors import NotFoundError, UsageError
from gpulayer.sdk.array_words import ITEMS, array_of, split_items, with_bare_matrix
from gpulayer.sdk.describe import ANYWHERE, OPTIONS, spec_of
from gpulayer.sdk.item_lines import no_constant
from gpulayer.sdk.requirements import requirements_of, with_header

if TYPE_CHECKING:
    from gpulayer.sdk.calls import Calls
    from gpulayer.sdk.servers import Elsewhere

STARTING = (
    "name", "gpus", "gpu_memory", "accelerator", "cpus", "memory", "disk", "profile", "python",
    "requirement", "image", "cold",
    "source", "inputs", "outputs", "data", "checkpoint", "on", "target", "priority", "strategy",
    "label", "env", "env_file", "secret", "timeout",
    "retries", "retry_on", "on_unschedulable", "idempotency_key", "stdin",
    "array", "each_line", "matrix", "max_failures", "after", "cache", "refresh",
)  # fmt: skip
"""Flags that run, submit and plan share, in the order of their help."""


def starting_options(command: Command) -> Command:
    """All flags that describe a job, and `--help-all` for the advanced ones."""
    command = click.option(
        "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_help_all,
        help="Show the advanced options too.",
    )(command)  # fmt: skip
    return options(*STARTING)(command)


class Starting(click.Command):
    """`--get` alone is `--get=.`: the word after it is not its value but the command's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_bare_matrix(_with_bare_get(args)))


def _with_bare_get(args: list[str]) -> list[str]:
    taking = {n for f in FLAGS.values() if "is_flag" not in f.settings for n in f.names}
    words, rest = [], list(args)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        word = rest.pop(0)
        if word == "--get":
            word = "--get=."
        words.append(word)
        if word in taking and rest:
            words.append(rest.pop(0))
    return [*words, *rest]


def spec_from(
    workload: Mapping[str, Any],
    flags: Mapping[str, Any],
    server: Elsewhere | None = None,
    calls: Calls | None = None,
) -> dict[str, Any]:
    """The job for a workload and the flags that were given, on its way to `server`. `calls`: those
    of a map."""
    workload, array = _array(workload, flags, None if calls is None else calls.array)
    said = {name: flags[name] for name in OPTIONS if name in flags} | {"array": array}
    said["cache"] = flags["cache"] or flags["refresh"]
    said["on"] = _where(flags) or (ANYWHERE if server is not None else None)
    said["labels"] = labels_from(flags["label"])
    said["env"] = _env(flags["env"], flags["env_file"])
    said["secrets"] = flags["secret"]
    said["outputs"] = list(flags["outputs"])
    said["requirements"] = requirements_of(flags["requirement"])
    spec = spec_of(workload, with_header(workload, said))
    if flags.get("cold"):
        spec["environment"] = {**spec.get("environment", {}), "preload": []}
    if calls is not None and calls.inputs:
        spec["workload"]["args"] = calls.args
        spec["inputs"] = calls.inputs
    return spec


def _array(
    workload: Mapping[str, Any], flags: Mapping[str, Any], calls: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The workload without its items, and the array that it becomes."""
    items: list[str] = []
    if workload["kind"] == "command" and ITEMS in workload["command"]:
        words, items = split_items(workload["command"])
        workload = {**workload, "command": words}
    wishes = {name: flags.get(name) for name in ("array", "each_line", "matrix", "max_failures")}
    if not (items or calls) and all(value in (None, ()) for value in wishes.values()):
        return workload, {}
    return array_of(workload, items=items, calls=calls, **wishes)  # type: ignore[arg-type]


def server_for(flags: Mapping[str, Any]) -> Elsewhere | None:
    """Where the job of these flags goes. None: `--on here`, whatever was chosen, or nothing was
    said and no server is chosen; then it sees this terminal's world."""
    where = _where(flags)
    if where == "here":
        return None
    if where is None:
        return chosen()
    from gpulayer.sdk.servers import LocalPlane

    return chosen() or LocalPlane()


def _where(flags: Mapping[str, Any]) -> str | None:
    where: str | None = flags["on"] or flags["target"]
    return where


def labels_from(texts: Iterable[str]) -> dict[str, str]:
    """Of `--label K=V`."""
    return dict(_pair(text, "--label") for text in texts)


def function_workload(
    entrypoint: str, args: str | None, kwargs: str | None, mended: str = "gpulayer submit {}"
) -> dict[str, Any]:
    """A function job from `module:function`, `--args` and `--kwargs`. `mended`: a line that is
    offered for a slip in its name."""
    module, _, function = entrypoint.partition(":")
    if module.endswith(".py") and os.path.isfile(module):
        meant = f"{module.removesuffix('.py')}:{function}"
        raise UsageError(
            "usage",
            f"'{entrypoint}' names a file, and a function is module:function",
            why=f"did you mean {meant}?",
            hint=mended.format(meant),
        )
    workload: dict[str, Any] = {"kind": "function", "entrypoint": entrypoint}
    if args is not None:
        workload["args"] = _json(args, "--args", list)
    if kwargs is not None:
        workload["kwargs"] = _json(kwargs, "--kwargs", dict)
    return workload


def _env(texts: Iterable[str], files: Iterable[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name in files:
        values |= dict(_lines(name))
    for text in texts:
        if "=" in text:
            values |= dict([_pair(text, "--env")])
        elif text in os.environ:
            values[text] = os.environ[text]
    return values


def _lines(name: str) -> Iterator[tuple[str, str]]:
    """Of a file as docker's: no quotes, no `export`. A line is never shown: it may be secret."""
    from pathlib import Path

    path = Path(name)
    if not path.is_file():
        raise NotFoundError("file-not-found", f"--env-file: {name} is not a file", hint="ls")
    for number, text in enumerate(path.read_text().splitlines(), 1):
        line = text.strip()
        if line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            if not equals or not key or " " in key:
                raise UsageError(
                    "usage",
                    f"{name}:{number}: the line is not NAME=VALUE",
                    why="a line is a name, = and the value as it is: no export, no blanks",
                    hint=f"sed -n {number}p {shlex.quote(name)}",
                )
            yield key, value


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError("usage", f"{flag}: '{text}' is not NAME=VALUE", hint=f"{flag} NAME=VALUE")
    return name, value


def _json(text: str, flag: str, kind: type) -> Any:
    example = json.dumps(kind())
    try:
        value = json.loads(text, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        message = f"{flag} is not JSON: {error}"
        raise UsageError("usage", message, hint=f"{flag} '{example}'") from None
    if not isinstance(value, kind):
        name = "list" if kind is list else "object"
        raise UsageError("usage", f"{flag} is not a JSON {name}", hint=f"{flag} '{example}'")
    return value


def _shown(parameter: click.Parameter) -> click.Parameter:
    """As it stands among all flags."""
    if isinstance(parameter, click.Option) and parameter.name != "target":
        parameter = copy.copy(parameter)
        parameter.hidden = False
    return parameter


def _help_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        shown = copy.copy(ctx.command)
        shown.params = [_shown(parameter) for parameter in shown.params]
        click.echo(shown.get_help(ctx))
        ctx.exit()
