"""How people write an array: `0-99:3%8`, lines of a file, `::: a b c`, `lr=0.1,0.01 seed=1,2`.

Light enough for the command line: the plane validates.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.contracts import limits
from gpulayer.contracts.elements import names_item
from gpulayer.errors import UsageError
from gpulayer.sdk.item_lines import lines_of, value_of

ITEMS = ":::"
"""Before the items of a command line, as with GNU parallel."""

_QUOTES = 3
"""Bytes of a word in a list besides itself."""

_RANGE = re.compile(r"(?:(\d{1,10})(?:-(\d{1,10})(?::(\d{1,10}))?)?)?(?:%(\d{1,7}))?")
_PARAMETER = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def array_of(
    workload: Mapping[str, Any],
    *,
    array: str | None = None,
    each_line: str | None = None,
    items: Sequence[str] = (),
    matrix: Sequence[str] = (),
    max_failures: int | None = None,
    calls: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The workload and its array; without one, nothing. An item that a command does not name with
    `{item}` becomes its last word. `calls`: the array that `sdk.calls` made of a map's items."""
    wish: dict[str, Any] = {}
    if array is not None:
        wish |= range_of(array)
    if each_line is not None:
        wish["items"] = _items_of(each_line, workload)
    if items:
        wish["items"] = list(items)
    if matrix:
        wish["matrix"] = _matrix(matrix, as_json=workload["kind"] == "function")
    forms = [form for form in ("count", "items", "matrix") if form in wish]
    if len(forms) + bool(each_line and items) + bool(calls) > 1:
        raise UsageError(
            "usage",
            "an array is a range, a list of items or a matrix, and more than one was given",
            why="--array %8 beside items or a matrix says how many run at one time",
            hint="gpulayer submit --array 0-9 -- sh -c 'echo {index}'",
        )
    if calls:
        wish |= calls
    elif not forms and (wish or max_failures is not None):
        raise UsageError(
            "usage",
            "there is no array: neither a range, nor items, nor a matrix",
            hint="gpulayer submit --array 0-9 -- sh -c 'echo {index}'",
        )
    if max_failures is not None:
        wish["max_failures"] = max_failures
    work = dict(workload)
    if "items" in wish and work["kind"] == "command" and not names_item({"workload": work}):
        work["command"] = [*work["command"], "{item}"]
    return work, wish


def split_items(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command and its items. GNU parallel's own `:::` is left to it."""
    if ITEMS not in words or os.path.basename(words[0]) == "parallel":
        return list(words), []
    at = list(words).index(ITEMS)
    command, items = list(words[:at]), list(words[at + 1 :])
    if ITEMS in items:
        raise UsageError(
            "usage",
            f"'{ITEMS}' comes twice",
            why="every pair of two lists is a matrix",
            hint="gpulayer run --matrix a=1,2 b=x,y -- echo {a} {b}",
        )
    if not command or not items:
        what = "items" if command else "a command"
        raise UsageError(
            "usage", f"'{ITEMS}' lacks {what}", hint="gpulayer run -- echo {item} ::: a b c"
        )
    return command, items


def _items_of(name: str, workload: Mapping[str, Any]) -> list[str]:
    """The lines of a file, as far as a job can hold them."""
    items, left = list[str](), limits.SPEC_BYTES
    for line in lines_of(name, "--each-line"):
        items.append(line)
        left -= len(line.encode()) + _QUOTES
        if left < 0 or len(items) > limits.ARRAY_ITEMS:
            raise _too_many(name, workload)
    return items


def _too_many(name: str, workload: Mapping[str, Any]) -> UsageError:
    if workload["kind"] == "function":
        why, hint = "a map has room for a million", f"map {workload['entrypoint']} --each-line"
        hint = f"gpulayer {hint} {shlex.quote(name)}"
    else:
        why = "an element can read its own line by its index"
        hint = "gpulayer run --array 1-20000 -- sh -c 'sed -n \"{index}p\" FILE'"
    return UsageError(
        "too-large",
        f"--each-line: {name} has more lines than one job can hold, which is "
        f"{limits.ARRAY_ITEMS:,} and {limits.SPEC_BYTES >> 10} KB",
        why=why,
        hint=hint,
    )


def range_of(text: str) -> dict[str, Any]:
    found = _RANGE.fullmatch(text)
    if found is None or not text:
        raise UsageError(
            "usage",
            f"--array: '{text}' is no range",
            why="a range is FIRST-LAST, :STEP if not 1, and %N for at most N at one time",
            hint="--array 0-99:3%8",
        )
    first, last, step, parallel = (None if n is None else int(n) for n in found.groups())
    wish: dict[str, Any] = {}
    if first is not None:
        end, by = first if last is None else last, 1 if step is None else step
        if end < first or not by:
            raise UsageError(
                "usage", f"--array: '{text}' has no element", hint=f"--array {end}-{first}"
            )
        wish["count"] = (end - first) // by + 1
        wish |= {"first": first} if first else {}
        wish |= {"step": by} if by != 1 else {}
    if parallel is not None:
        wish["max_parallel"] = parallel
    return wish


def _matrix(words: Sequence[str], *, as_json: bool) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for word in words:
        match = _PARAMETER.fullmatch(word)
        if match is None or match[1] in found:
            what = "is not NAME=VALUE,VALUE" if match is None else "comes twice"
            raise UsageError("usage", f"--matrix: '{word}' {what}", hint="--matrix lr=0.1,0.01")
        values = match[2].split(",")
        found[match[1]] = [value_of(value) for value in values] if as_json else list(values)
    return found


def with_bare_matrix(words: Sequence[str]) -> list[str]:
    """`--matrix lr=1,2 seed=1,2 -- ...`: each word of that form behind the flag is one more."""
    found, rest = list[str](), list(words)
    while rest and rest[0] != "--":
        word = rest.pop(0)
        found.append(word)
        if word == "--matrix" and rest:
            found.append(rest.pop(0))
            while rest and _PARAMETER.fullmatch(rest[0]):
                found += ["--matrix", rest.pop(0)]
    return [*found, *rest]
