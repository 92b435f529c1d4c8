"""A value from JSON: `decode`. What comes may be anything: nothing is called but the constructors
below, nothing is allocated that did not arrive, and every fault is one `Unreadable`."""

from __future__ import annotations

import json
import os
import re

from . import limits
from .limits import KEY, Unreadable, from_base64
from .naming import Classes, is_made_of_python

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}\.(json|npy|safetensors|arrow|bin)\Z")
"""Of a file beside a value."""

_DAMAGED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,  # of torch
    SyntaxError,  # of numpy, for the text of a dtype
)
"""What constructors raise of what is no value of theirs."""


class Source:
    """Where the large parts of values are. This one has none."""

    def open(self, name: str) -> BinaryIO:
        """A file that can be read anywhere. Raises OSError, Unreadable."""
        raise Unreadable("it names a file, and none came with it")


def is_tagged(wire: Any) -> bool:
    return type(wire) is dict and KEY in wire


def decode(wire: Any, classes: Classes, source: Source) -> Any:
    """The value. Plain JSON is itself. Raises Unreadable, and what `source` raises."""
    if not is_tagged(wire):
        return wire
    if wire[KEY] != limits.VERSION or len(wire) != 2:
        raise Unreadable("it was written by another version of GPUlayer")
    reader = Reader(classes, source)
    try:
        if "value" in wire:
            return reader.read(wire["value"], 0)
        if "text" in wire:
            return reader.read(_parsed(wire["text"]), 0)
        if "file" in wire:
            return reader.read(_parsed(reader.bytes_of(wire["file"])), 0)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except _DAMAGED as error:
        raise Unreadable("it is damaged: {}".format(str(error)[:200])) from None
    raise Unreadable("it was written by another version of GPUlayer")


def _parsed(text: Any) -> Any:
    return json.loads(text, parse_constant=_no_number)


def _no_number(text: str) -> float:
    raise Unreadable("{} is no number of JSON".format(text))


class Reader:
    def __init__(self, classes: Classes, source: Source) -> None:
        self.classes = classes
        self._source = source

    def read(self, wire: Any, depth: int) -> Any:
        kind = type(wire)
        if kind is list:
            _check(depth)
            return [self.read(item, depth + 1) for item in wire]
        if kind is not dict:
            return wire
        _check(depth)
        if len(wire) == 1:
            for key, value in wire.items():
                if key[:1] == "$":
                    return self._tagged(key[1:], value, depth)
        return {key: self.read(item, depth + 1) for key, item in wire.items()}

    def items(self, wire: Any, depth: int) -> list[Any]:
        if type(wire) is not list:
            raise Unreadable("it is damaged: a list is no list")
        return [self.read(item, depth + 1) for item in wire]

    def open(self, name: Any) -> BinaryIO:
        if type(name) is not str or NAME.match(name) is None:
            raise Unreadable("it names a file that cannot be one of its own")
        try:
            return self._source.open(name)
        except OSError as error:
            raise Unreadable(
                "its file {} cannot be read: {}".format(name, error.strerror or error)
            ) from None

    def bytes_of(self, name: Any) -> bytes:
        with self.open(name) as file:
            found = file.read(limits.TEXT_BYTES + 1)
        if len(found) > limits.TEXT_BYTES:
            raise Unreadable("its file has more than {} bytes".format(limits.TEXT_BYTES))
        return found

    def _tagged(self, name: str, wire: Any, depth: int) -> Any:
        make = _MAKE.get(name)
        if make is not None:
            return make(self, wire, depth)
        from . import blobs

        if name in blobs.KINDS:
            return blobs.read(self, name, wire)
        raise Unreadable("it holds a {!r}, which this version cannot read".format(name[:40]))


def _check(depth: int) -> None:
    if depth > limits.MAX_DEPTH:
        raise Unreadable("it is nested too deeply")


def _dict(reader: Reader, wire: Any, depth: int) -> Any:
    made = {}
    for key, item in wire:
        made[reader.read(key, depth + 1)] = reader.read(item, depth + 1)
    if len(made) != len(wire):
        raise Unreadable("it is damaged: a key comes twice")
    return made


def _set(reader: Reader, wire: Any, depth: int) -> Any:
    made = set(reader.items(wire, depth))
    if len(made) != len(wire):
        raise Unreadable("it is damaged: a part of a set comes twice")
    return made


def _complex(reader: Reader, wire: Any, depth: int) -> Any:
    real, imaginary = wire
    return complex(float(real), float(imaginary))


def _ordered(reader: Reader, wire: Any, depth: int) -> Any:
    import collections

    return collections.OrderedDict(_dict(reader, wire, depth))


def _decimal(reader: Reader, wire: Any, depth: int) -> Any:
    import decimal

    try:
        return decimal.Decimal(str(wire))
    except decimal.InvalidOperation:
        raise Unreadable("it is damaged: a Decimal is none") from None


def _uuid(reader: Reader, wire: Any, depth: int) -> Any:
    import uuid

    return uuid.UUID(hex=wire)


def _zone(reader: Reader, wire: Any, depth: int) -> Any:
    try:
        import zoneinfo

        return zoneinfo.ZoneInfo(wire)
    except ImportError:
        raise Unreadable("time zones by name need Python 3.9", "zoneinfo") from None
    except (KeyError, OSError):
        raise Unreadable(
            "the time zone {} is not known here".format(str(wire)[:60]), "tzdata"
        ) from None


def _timedelta(reader: Reader, wire: Any, depth: int) -> Any:
    import datetime

    days, seconds, microseconds = wire
    return datetime.timedelta(days, seconds, microseconds)


def _timezone(reader: Reader, wire: Any, depth: int) -> Any:
    import datetime

    at, *name = wire
    return datetime.timezone(_timedelta(reader, at, depth), *reader.items(name, depth))


def _date(reader: Reader, wire: Any, depth: int) -> Any:
    import datetime

    return datetime.date.fromisoformat(wire)


def _zoned(name: str) -> Callable[[Reader, Any, int], Any]:
    def make(reader: Reader, wire: Any, depth: int) -> Any:
        import datetime

        text, fold, zone = wire
        tzinfo = None if zone is None else reader.read(zone, depth + 1)
        return getattr(datetime, name).fromisoformat(text).replace(fold=fold, tzinfo=tzinfo)

    return make


_PATHS = ("PurePosixPath", "PureWindowsPath", *(("PosixPath",) if os.name == "posix" else ()))


def _path(reader: Reader, wire: Any, depth: int) -> Any:
    import pathlib

    kind, text = wire
    if kind not in _PATHS:
        raise Unreadable("a {} cannot be made on this system".format(str(kind)[:40]))
    return getattr(pathlib, kind)(reader.read(text, depth + 1))


def _member(reader: Reader, wire: Any, depth: int) -> Any:
    import enum

    name, member = wire
    kind = reader.classes.find(name)
    if not issubclass(kind, enum.Enum) or member not in kind.__members__:
        raise Unreadable("{} has no member {!r} here".format(name, str(member)[:60]))
    return kind.__members__[member]


def _dataclass(reader: Reader, wire: Any, depth: int) -> Any:
    """As it was, not made anew: `__post_init__` ran when it was."""
    import dataclasses

    name, values = wire
    kind = reader.classes.find(name)
    if "__dataclass_fields__" not in vars(kind) or not is_made_of_python(kind):
        raise Unreadable("{} is no dataclass here".format(name))
    if {field.name for field in dataclasses.fields(kind)} != set(values):
        raise Unreadable("{} has other fields here".format(name))
    made = object.__new__(kind)
    for field, value in values.items():
        object.__setattr__(made, field, reader.read(value, depth + 1))
    return made


_MAKE: dict[str, Callable[[Reader, Any, int], Any]] = {
    "str": lambda reader, wire, depth: from_base64(wire).decode("utf-8", "surrogatepass"),
    "int": lambda reader, wire, depth: int(str(wire), 16),
    "tuple": lambda reader, wire, depth: tuple(reader.items(wire, depth)),
    "set": _set,
    "frozenset": lambda reader, wire, depth: frozenset(_set(reader, wire, depth)),
    "bytes": lambda reader, wire, depth: from_base64(wire),
    "bytearray": lambda reader, wire, depth: bytearray(from_base64(wire)),
    "dict": _dict,
    "ordered": _ordered,
    "complex": _complex,
    "decimal": _decimal,
    "datetime": _zoned("datetime"),
    "time": _zoned("time"),
    "date": _date,
    "timedelta": _timedelta,
    "timezone": _timezone,
    "zone": _zone,
    "uuid": _uuid,
    "path": _path,
    "enum": _member,
    "dataclass": _dataclass,
}
