"""Which values may travel, so that `f.remote(x) == f(x)` with equal types, or a refusal.

Plain JSON and nothing else for now: None, bool, int, finite float, str, list, and dict with str
keys, each of exactly that type. A tuple would come back as a list and an int key as text, so both
are refused where they are written, with their place in the value. Never pickle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpulayer.contracts.limits import JSON_DEPTH
from gpulayer.errors import UsageError

MAX_INT_BITS = 14_000
"""About 4,200 digits; Python refuses to read longer ones (CVE-2020-10735)."""

_MEND: dict[type[Any], str] = {
    tuple: "use a list",
    set: "use a sorted list",
    frozenset: "use a sorted list",
    bytes: "decode it, or write it to a file",
}


def require_portable(args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises UsageError `value-not-portable` at the first part of a call's arguments that would
    not come back the same, with its place."""
    for number, value in enumerate(args):
        _require(value, f"args[{number}]")
    for name, value in kwargs.items():
        _require(value, f"kwargs[{name!r}]")


def _require(value: Any, place: str) -> None:
    for problem, mend in _problems(value, place, 0, set()):
        raise UsageError(
            "value-not-portable",
            problem,
            why=f"only plain JSON travels unchanged between machines: {mend}",
            hint="gpulayer help value-not-portable",
        )


def _problems(value: Any, place: str, depth: int, above: set[int]) -> Iterator[tuple[str, str]]:
    kind = type(value)
    if value is None or kind is bool:
        return
    if kind is int:
        if value.bit_length() > MAX_INT_BITS:
            yield f"{place} is an integer of more than {MAX_INT_BITS} bits", "send it as text"
    elif kind is float:
        if not math.isfinite(value):
            yield f"{place} is {value}, which JSON cannot hold", "use None"
    elif kind is str:
        if not _is_text(value):
            yield f"{place} holds half of a surrogate pair", "use valid text"
    elif kind is list or kind is dict:
        if depth >= JSON_DEPTH or id(value) in above:
            yield f"{place} is nested too deeply or holds itself", "use a flatter value"
            return
        above.add(id(value))
        yield from _inside(value, place, depth, above)
        above.discard(id(value))
    else:
        mend = _MEND.get(kind, "convert it, or write it to a file in GPULAYER_OUTPUT_DIR")
        yield f"{place} is a {_name(kind)}", mend


def _inside(
    value: list[Any] | dict[Any, Any], place: str, depth: int, above: set[int]
) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _problems(item, f"{place}[{number}]", depth + 1, above)
        return
    for key, item in value.items():
        if type(key) is not str or not _is_text(key):
            yield f"{place} has the key {key!r}, a {_name(type(key))}", "use text as keys"
        yield from _problems(item, f"{place}[{key!r}]", depth + 1, above)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
