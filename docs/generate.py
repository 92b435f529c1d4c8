"""The pages of `docs/reference` that are made from the code: `python docs/generate.py`.

A test compares them with what is in the repository, so that they cannot drift.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import gpulayer
from gpulayer.cli.flags import STARTING
from gpulayer.cli.pages import PAGES, REASONS
from gpulayer.cli.table import FLAGS, VERBS, Flag, Verb
from gpulayer.contracts import keeping, limits, schema
from gpulayer.contracts.notyet import NOT_YET
from gpulayer.contracts.states import JOB_TRANSITIONS, TASK_TRANSITIONS
from gpulayer.sdk.elements import Element
from gpulayer.sdk.mapped import Map
from gpulayer.slugs import SLUGS

REFERENCE = Path(__file__).parent / "reference"
MADE = "<!-- Made by docs/generate.py. Change the code, then run it. -->\n"


def cli() -> str:
    """Verbs and flags, from the one table."""
    lines = ["# Command line", "", MADE]
    lines += ["`gpulayer VERB [options]`. Every page is also `gpulayer VERB --help`.", ""]
    for group in dict.fromkeys(verb.group for verb in VERBS):
        lines += [f"## {group}", ""]
        for verb in VERBS:
            if verb.group == group and verb.alias_of is None:
                lines += _verb(verb)
    lines += ["## Options that describe a job", ""]
    lines += [
        "Taken by `run`, `submit`, `map` and `plan`.",
        "",
        "| option | meaning |",
        "|---|---|",
    ]
    lines += [_flag(FLAGS[name]) for name in STARTING if not FLAGS[name].settings.get("hidden")]
    for name, text in PAGES.items():
        lines += ["", f"## {name.replace('-', ' ').capitalize()}", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def errors() -> str:
    """The table of slugs."""
    lines = ["# Errors", "", MADE]
    lines += [
        "Every message is `error[slug]: what`, then `where:`, `why:` and `help:` with commands to",
        "paste. The same page offline: `gpulayer help SLUG`. `run` is the exit code of run and",
        "wait, `other` that of all other verbs.",
        "",
        "| slug | meaning | Python | run | other |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| `{slug.name}` | {slug.explanation} | `{slug.error.__name__}` | {slug.run_exit} "
        f"| {slug.exit} |"
        for slug in SLUGS.values()
    ]
    lines += ["", "## Reasons", "", "Shown beside a job's state.", "", "| reason | meaning |"]
    lines += ["|---|---|", *(f"| `{name}` | {text} |" for name, text in REASONS.items())]
    return "\n".join(lines) + "\n"


def states() -> str:
    """The diagrams, from the tables that code and database obey."""
    lines = ["# States", "", MADE]
    lines += ["A state says where a job is; its reason says why. No other move is possible: the"]
    lines += ["database refuses it.", "", "## Jobs", "", *_diagram(JOB_TRANSITIONS)]
    lines += ["", "## Tasks", "", "A task is one attempt at a job on one worker.", ""]
    lines += _diagram(TASK_TRANSITIONS)
    return "\n".join(lines) + "\n"


def limits_page() -> str:
    """The table of limits, with what each row counts."""
    lines = ["# Limits", "", MADE]
    lines += ["Past one of these a job is refused by name, and nothing is cut."]
    lines += ["Bytes are of UTF-8 text.", "", "| limit | value | counts |", "|---|---|---|"]
    rows = dict(_limits(limits))
    lines += [
        f"| `{name.lower()}` | {getattr(limits, name):,} | {text} |" for name, text in rows.items()
    ]
    lines += ["", "## What is kept", ""]
    lines += ["A plane and a worker that run remove by themselves what is past one of these, each"]
    lines += ["hour, and a local plane when it leaves because it is idle. `gpulayer gc` has the"]
    lines += ["plane do it at once; `--dry-run` lists what would go.", ""]
    lines += ["| limit | value | counts |", "|---|---|---|"]
    lines += [
        f"| `{name.lower()}` | {_value(getattr(keeping, name))} | {text} |"
        for name, text in _limits(keeping)
    ]
    return "\n".join(lines) + "\n"


def jobspec() -> str:
    """The fields of a job, from its schema."""
    whole = schema.jobspec_schema()
    lines = ["# Jobs", "", MADE]
    lines += ["A job file is JSON or YAML: `gpulayer submit -f job.json`. `gpulayer schema PART`"]
    lines += ["prints the schema of a part. A field in italics is part of the contract, and"]
    lines += ["refused with `not-yet` until a version acts on it.", ""]
    lines += _fields("job", whole)
    for name, part in whole["$defs"].items():
        lines += _fields(name, part)
    return "\n".join(lines) + "\n"


def python() -> str:
    """The public names of the package."""
    lines = ["# Python", "", MADE, "`import gpulayer as gl`", ""]
    lines += ["| name | what it is |", "|---|---|"]
    for name in gpulayer.__all__:
        found = getattr(gpulayer, name)
        told = inspect.getdoc(found) if callable(found) else "The version, as text."
        called = f"{name}{_signature(found)}" if inspect.isroutine(found) else name
        lines.append(f"| `gl.{called}` | {_cell((told or '').split(chr(10) * 2)[0])} |")
    kinds = (gpulayer.Job, gpulayer.RemoteFunction, Map, Element, gpulayer.Client)
    for kind in kinds:
        lines += ["", f"## {kind.__name__}", "", "| member | what it does |", "|---|---|"]
        for member, found in _members(kind).items():
            told = inspect.getdoc(found.fget if isinstance(found, property) else found)
            called = member if isinstance(found, property) else f"{member}()"
            if member[0] != "_" and told and (callable(found) or isinstance(found, property)):
                lines.append(f"| `{called}` | {_cell(told.split(chr(10) * 2)[0])} |")
    return "\n".join(lines) + "\n"


def _members(kind: type) -> dict[str, Any]:
    """Its own, then those of the parts that it is made of."""
    parts = [part for part in kind.__mro__ if part.__module__.startswith("gpulayer.")]
    found: dict[str, Any] = {}
    for part in parts:
        found |= {name: member for name, member in vars(part).items() if name not in found}
    return found


PAGES_MADE: dict[str, Callable[[], str]] = {
    "cli.md": cli,
    "errors.md": errors,
    "states.md": states,
    "limits.md": limits_page,
    "jobspec.md": jobspec,
    "python.md": python,
}


def _verb(verb: Verb) -> Iterator[str]:
    found = importlib.import_module(f"gpulayer.cli.{verb.module}").command
    with click.Context(found, info_name=f"gpulayer {verb.name}") as ctx:
        usage = " ".join(found.collect_usage_pieces(ctx))
    shared = [FLAGS[name] for name in STARTING]
    own = [flag for flag in _flags_of(found) if flag not in shared]
    aliases = [f"`{other.name}`" for other in VERBS if other.alias_of == verb.name]
    also = f" Also {', '.join(aliases)}." if aliases else ""
    yield from (f"### {verb.name}", "", f"`gpulayer {verb.name} {usage}`", "")
    yield from (_cell(inspect.cleandoc(found.help or "")) + also, "")
    if own:
        yield from ("| option | meaning |", "|---|---|", *map(_flag, own), "")


def _flags_of(command: click.Command) -> Iterator[Flag]:
    for option in command.params:
        if isinstance(option, click.Option):
            yield from (flag for flag in FLAGS.values() if flag.about == option.help)


def _flag(flag: Flag) -> str:
    value = flag.settings.get("metavar")
    names = ", ".join(flag.names) + (f" {value}" if value else "")
    return f"| `{names.replace('|', chr(92) + '|')}` | {_cell(flag.about)} |"


def _diagram(moves: Mapping[Any, frozenset[Any]]) -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(moves))}"]
    for state, onward in moves.items():
        lines += [f"    {state} --> {after}" for after in moves if after in onward]
        if not onward:
            lines.append(f"    {state} --> [*]")
    return [*lines, "```"]


def _value(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:g}"


def _limits(table: ModuleType) -> Iterator[tuple[str, str]]:
    """(name, docstring) of each constant; one without words shares those of the next."""
    body = ast.parse(inspect.getsource(table)).body
    for row, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(row, ast.AnnAssign) and isinstance(row.target, ast.Name):
            text = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = _cell(str(after.value.value))
            yield row.target.id, text


def _fields(title: str, part: Mapping[str, Any]) -> list[str]:
    if "properties" not in part:
        return []
    lines = [f"## {title}", ""]
    if part.get("description"):
        lines += [_cell(part["description"]), ""]
    lines += ["| field | is | default | meaning |", "|---|---|---|---|"]
    for name, field in part["properties"].items():
        shown = f"*{name}*" if title == "job" and name in NOT_YET else f"`{name}`"
        default = f"`{json.dumps(field['default'])}`" if "default" in field else ""
        told = _cell(field.get("description", ""))
        lines.append(f"| {shown} | {_kind(field)} | {default} | {told} |")
    return [*lines, ""]


def _kind(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2]
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    for key in ("anyOf", "oneOf"):
        if key in field:
            kinds = [_kind(option) for option in field[key]]
            return " or ".join(dict.fromkeys(kind for kind in kinds if kind))
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {})) or 'anything'}"
    if field.get("type") == "object":
        return "object"
    names = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    types = field.get("type", "anything")
    listed = types if isinstance(types, list) else [types]
    return " or ".join(names.get(one, one) for one in listed if one != "null")


def _signature(found: Any) -> str:
    try:
        return (
            str(inspect.signature(found)).partition(" ->")[0].replace("'", "").replace("|", "\\|")
        )
    except (TypeError, ValueError):
        return "()"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES_MADE.items():
        (REFERENCE / name).write_text(page())


if __name__ == "__main__":
    main()
