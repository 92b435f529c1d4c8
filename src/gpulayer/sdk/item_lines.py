"""Items that people write down: the lines of a file, JSON lines, the words behind `:::`.

A line that is none is refused with its number, before anything is submitted.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from gpulayer.errors import NotFoundError, UsageError

_BOM = b"\xef\xbb\xbf"


def lines_of(name: str, flag: str) -> Iterator[str]:
    """The lines of a file, or with `-` of standard input, without their ends; an empty line is one.
    Raises NotFoundError, and UsageError for a file without lines or a line that is no text."""
    number = 0
    try:
        with open(0 if name == "-" else name, "rb", closefd=name != "-") as file:
            for number, raw in enumerate(file, 1):
                begun = raw.removeprefix(_BOM) if number == 1 else raw
                yield _line(name, number, begun.removesuffix(b"\n").removesuffix(b"\r"))
    except OSError as error:
        raise NotFoundError(
            "file-not-found", f"{flag}: {name} cannot be read: {error.strerror}", hint="ls"
        ) from None
    if not number:
        raise UsageError("usage", f"{flag}: {name} has no lines", hint=_hint(name, "ls -l"))


def json_lines(name: str, flag: str) -> Iterator[tuple[str, Any]]:
    """(its place, value) of each line of such a file, which is one JSON value each. Empty lines at
    the end are none."""
    empty = 0
    for number, text in enumerate(lines_of(name, flag), 1):
        if not text.strip():
            empty = empty or number
            continue
        if empty:
            raise _refused(name, empty, "is empty", "null is the value that says nothing")
        yield f"{name}:{number}", _value(name, number, text)
    if empty == 1:
        raise UsageError("usage", f"{flag}: {name} has no values", hint=_hint(name, "ls -l"))


def words_as_values(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The same of words: JSON where a word reads so, else text."""
    return ((f"item {number}", value_of(word)) for number, word in enumerate(words))


def lines_as_texts(name: str, flag: str) -> Iterator[tuple[str, Any]]:
    """The same of lines that are text, whatever is in them."""
    return ((f"{name}:{number}", text) for number, text in enumerate(lines_of(name, flag), 1))


def value_of(word: str) -> Any:
    """A number, true, false, null, a list or an object where it reads so; else text."""
    try:
        return json.loads(word, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return word


def _value(name: str, number: int, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=no_constant)
    except RecursionError:
        fault = "is nested too deeply"
    except json.JSONDecodeError as error:
        fault = f"is not JSON: {error.msg} at column {error.colno}"
    except ValueError as error:
        fault = f"is not JSON: {error}"
    raise _refused(name, number, fault, "each line is one JSON value")


def _line(name: str, number: int, raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        fault = f"is not UTF-8 at byte {error.start + 1}"
    else:
        if "\0" not in text:
            return text
        fault = "holds a NUL"
    raise _refused(name, number, fault, "a line is text")


def _refused(name: str, number: int, fault: str, why: str) -> UsageError:
    return UsageError(
        "usage",
        f"{name}:{number}: the line {fault}",
        why=f"{why}; nothing was submitted",
        hint=_hint(name, f"sed -n {number}p"),
    )


def _hint(name: str, look: str) -> str:
    """How to look at a file. What standard input was has gone."""
    return "gpulayer help arrays" if name == "-" else f"{look} {shlex.quote(name)}"


def no_constant(text: str) -> Any:
    """For `json.loads`: NaN and the infinities are refused."""
    raise ValueError(f"JSON has no {text}")
