"""Whether a JSON value is what a field of ours says: the one door for what others send.

Fields name what they take as their annotations do: `str`, `float | None`, `tuple[str, ...]`. Lists
come as tuples or lists, whole numbers fit a `float`, truth values fit no number. Numbers that no
database and no clock can hold (NaN, infinity, 64 bits and more) fit nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from gpulayer.errors import UsageError

_INT_BITS = 63


def fitted(owner: str, data: object, kinds: Mapping[str, str]) -> Mapping[str, Any]:
    """`data`, an object whose known keys hold what `kinds` says. Others are let through.

    Raises UsageError, which names the first key that does not fit.
    """
    if not isinstance(data, Mapping):
        raise UsageError("usage", f"{owner} is not a JSON object")
    for name, kind in kinds.items():
        if name in data and not _fits(data[name], kind):
            raise UsageError("usage", f"{owner}: {name} is not what it should be ({kind})")
    return data


def fitted_to(cls: type, data: object) -> Mapping[str, Any]:
    """`data`, from which `cls`, a dataclass, can be made: every key fits, none is missing."""
    kinds, needed = _fields(cls)
    found = fitted(cls.__name__, data, kinds)
    for name in needed:
        if name not in found:
            raise UsageError("usage", f"{cls.__name__}: {name} is missing")
    return found


@cache
def _fields(cls: type) -> tuple[Mapping[str, str], tuple[str, ...]]:
    fields = dataclasses.fields(cls)
    none = dataclasses.MISSING
    needed = (f.name for f in fields if f.default is none and f.default_factory is none)
    return {f.name: str(f.type) for f in fields}, tuple(needed)


def _fits(value: object, kind: str) -> bool:
    if value is None:
        return kind.endswith("None")
    return _TESTS[kind.removesuffix(" | None")](value)


def _is_int(value: object) -> bool:
    return type(value) is int and value.bit_length() <= _INT_BITS


def _is_float(value: object) -> bool:
    return _is_int(value) or (isinstance(value, float) and abs(value) < 1 << _INT_BITS)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _all(test: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(test, value))


def _texts_by_text(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value.values()))


_TESTS: Mapping[str, Callable[[object], bool]] = {
    "str": _is_text,
    "Vendor": _is_text,
    "MemoryKind": _is_text,
    "int": _is_int,
    "float": _is_float,
    "bool": lambda value: isinstance(value, bool),
    "Mapping[str, Any]": _is_object,
    "Mapping[str, str]": _texts_by_text,
    "tuple[str, ...]": _all(_is_text),
    "tuple[int, ...]": _all(_is_int),
    **dict.fromkeys(("Exit", "Preparation"), _is_object),
    **dict.fromkeys(
        (
            "tuple[Mapping[str, Any], ...]",
            "tuple[Held, ...]",
            "tuple[TaskReport, ...]",
            "tuple[PreparedStep, ...]",
            "tuple[Assignment, ...]",
            "tuple[Cancel, ...]",
            "tuple[StreamOrder, ...]",
            "tuple[Errand, ...]",
            "tuple[GpuDevice, ...]",
            "tuple[Interpreter, ...]",
        ),
        _all(_is_object),
    ),
}
