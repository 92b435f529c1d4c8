"""Plain words for pydantic's own errors: what is wrong, and what to write instead."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

_Words = tuple[str, str]


def sentence(error: Mapping[str, Any], *, secret: bool = False) -> _Words:
    """What is wrong (it goes on from the field's name) and how to mend it.

    Values are shown escaped and cut; with `secret` only their kind is.
    """
    words = _WORDS.get(error["type"])
    value = error.get("input")
    have = kind_of(value) if secret else shown(value)
    if words is None:
        return str(error["msg"]).lower(), "see `gpulayer schema`"
    return words(error.get("ctx", {}), value, have)


def shown(value: Any) -> str:
    """A value in a message: text quoted and escaped, lists and objects by their kind alone."""
    if isinstance(value, str):
        return f"text {quoted(value)}"
    if isinstance(value, float) or (type(value) is int and abs(value) < 10**20):
        return f"{value}"
    return kind_of(value)


def quoted(text: str) -> str:
    """Text in double quotes, cut to 80 characters, with everything escaped that could move a
    terminal's cursor or look like something else."""
    return json.dumps(text if len(text) <= 80 else text[:77] + "...")


def kind_of(value: Any) -> str:
    """`text`, `a number`, `true or false`, `a list`, `an object`, `null`, or a Python type."""
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return f"a {type(value).__name__}"


_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "true or false"),
    (str, "text"),
    (int | float, "a number"),
    (list, "a list"),
    (Mapping, "an object"),
    (type(None), "null"),
)


def _number(what: str, example: str) -> Callable[[Any, Any, str], _Words]:
    def words(context: Any, value: Any, have: str) -> _Words:
        if isinstance(value, str) and _NUMERIC.fullmatch(value):
            return f"must be {what}, not {have}", f"write {value} without quotes"
        return f"must be {what}, not {have}", f"write a number such as {example}"

    return words


def _text(context: Any, value: Any, have: str) -> _Words:
    if isinstance(value, int | float) and not isinstance(value, bool) and have != "a number":
        return f"must be text, not {have}", f'write "{value}"'
    return f"must be text, not {have}", "put it in quotes"


def _fixed(message: str, mend: str) -> Callable[[Any, Any, str], _Words]:
    return lambda context, value, have: (message.replace("{have}", have), mend)


def _bound(words: str, key: str) -> Callable[[Any, Any, str], _Words]:
    def say(context: Any, value: Any, have: str) -> _Words:
        bound = context[key]
        return (
            f"must be {words} {_plain(bound)}, not {have}",
            f"write a number {words} {_plain(bound)}",
        )

    return say


def _choice(context: Any, value: Any, have: str) -> _Words:
    choices = re.findall(r"'([^']*)'", str(context["expected"]))
    mend = f'write "{choices[0]}"'
    if isinstance(value, str):
        from difflib import get_close_matches

        near = get_close_matches(value, choices, n=1)
        mend = f"did you mean {near[0]}?" if near else mend
    said = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
    return f"must be {said}, not {have}", mend


def _kind(context: Any, value: Any, have: str) -> _Words:
    tag = context.get("tag")
    given = f", not {shown(tag)}" if tag is not None else ""
    return (
        f"must be one of the three kinds command, function, distributed{given}",
        'write it as {"kind": "command", "command": ["python", "train.py"]}',
    )


def _long(context: Any, value: Any, have: str) -> _Words:
    unit = "characters" if isinstance(value, str) else "entries"
    count = len(value) if hasattr(value, "__len__") else context.get("actual_length")
    return f"has {count} {unit}; up to {context['max_length']} are allowed", "give fewer"


def _plain(number: Any) -> str:
    if isinstance(number, float) and math.isfinite(number) and number == int(number):
        return str(int(number))
    return str(number)


_NUMERIC = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?", re.ASCII)

_OBJECT = _fixed("must be an object, not {have}", "write it in { }")
_WORDS: dict[str, Callable[[Any, Any, str], _Words]] = {
    "missing": lambda context, value, have: ("is required", "add it"),
    "int_type": _number("a whole number", "1"),
    "int_from_float": _number("a whole number", "1"),
    "int_parsing_size": _fixed("is too large a number", "write a smaller one"),
    "float_type": _number("a number", "1.5"),
    "finite_number": _fixed(
        "must be a finite number, not {have}", "write a number, or leave it out"
    ),
    "string_type": _text,
    "string_unicode": _fixed("is not valid text", "write it as UTF-8"),
    "bool_type": _fixed("must be true or false, not {have}", "write true or false without quotes"),
    "list_type": _fixed("must be a list, not {have}", "write it in [ ]"),
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "literal_error": _choice,
    "union_tag_invalid": _kind,
    "union_tag_not_found": _kind,
    "greater_than": _bound("more than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("less than", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "too_long": _long,
    "string_too_long": _long,
    "too_short": _fixed("needs at least one entry", "add one"),
    "string_too_short": _fixed("must not be empty", "write it out, or leave the field out"),
}
