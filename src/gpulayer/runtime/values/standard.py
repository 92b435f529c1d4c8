"""How values of the standard library's types are written. By name: of a module that is not loaded
there is no value."""

from __future__ import annotations

import json
import math
import os
import sys

from . import limits
from .limits import NotPortable, TooLarge, not_finite, to_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .writing import Writer


def _tuple(writer: Writer, value: Any, depth: int) -> Any:
    return writer.tag("tuple", writer.items(value, depth))


def _set(writer: Writer, value: Any, depth: int) -> Any:
    """Sorted by what they became, so that equal sets are equal text."""
    name = type(value).__name__
    try:
        made = writer.items(value, depth)
    except NotPortable as error:
        error.parts[-1] = ""  # the parts of a set have no places
        error.problem = "holds a part that " + error.problem
        raise
    return writer.tag(name, sorted(made, key=lambda one: json.dumps(one, sort_keys=True)))


def _bytes(writer: Writer, value: Any, depth: int) -> Any:
    if len(value) > limits.TEXT_BYTES // 2:
        raise TooLarge("has {} bytes".format(len(value)), "write it to a file, or use numpy")
    return writer.tag(type(value).__name__, to_base64(value))


def _ordered(writer: Writer, value: Any, depth: int) -> Any:
    if vars(value):
        raise NotPortable(
            "is an OrderedDict with attributes of its own, as a state_dict is", "send dict(...)"
        )
    return writer.pairs("ordered", value, depth)


def _complex(writer: Writer, value: complex, depth: int) -> Any:
    if not (math.isfinite(value.real) and math.isfinite(value.imag)):
        raise not_finite(value)
    return writer.tag("complex", [value.real, value.imag])


def _decimal(writer: Writer, value: Any, depth: int) -> Any:
    if not value.is_finite():
        raise not_finite(value)
    return writer.tag("decimal", str(value))


def _datetime(writer: Writer, value: Any, depth: int) -> Any:
    naive = value.replace(tzinfo=None, fold=0).isoformat()
    zone = None if value.tzinfo is None else writer.write(value.tzinfo, depth + 1)
    return writer.tag(type(value).__name__, [naive, value.fold, zone])


def _date(writer: Writer, value: Any, depth: int) -> Any:
    return writer.tag("date", value.isoformat())


def _timedelta(writer: Writer, value: Any, depth: int) -> Any:
    return writer.tag("timedelta", [value.days, value.seconds, value.microseconds])


def _timezone(writer: Writer, value: Any, depth: int) -> Any:
    offset, *name = value.__getinitargs__()
    at = [offset.days, offset.seconds, offset.microseconds]
    return writer.tag("timezone", [at, *(writer.write(one, depth + 1) for one in name)])


def _zone(writer: Writer, value: Any, depth: int) -> Any:
    if value.key is None:
        raise NotPortable("is a time zone without a name", "use one of zoneinfo by its name")
    return writer.tag("zone", value.key)


def _uuid(writer: Writer, value: Any, depth: int) -> Any:
    return writer.tag("uuid", value.hex)


def _path(writer: Writer, value: Any, depth: int) -> Any:
    return writer.tag("path", [type(value).__name__, writer.write(str(value), depth + 1)])


_TAGS: dict[str, Callable[[Writer, Any, int], Any]] = {
    "builtins.tuple": _tuple,
    "builtins.set": _set,
    "builtins.frozenset": _set,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytes,
    "builtins.complex": _complex,
    "collections.OrderedDict": _ordered,
    "decimal.Decimal": _decimal,
    "datetime.datetime": _datetime,
    "datetime.time": _datetime,
    "datetime.date": _date,
    "datetime.timedelta": _timedelta,
    "datetime.timezone": _timezone,
    "uuid.UUID": _uuid,
    "pathlib.PurePosixPath": _path,
    "pathlib.PureWindowsPath": _path,
    **({"pathlib.PosixPath": _path} if os.name == "posix" else {}),
    "zoneinfo.ZoneInfo": _zone,
}


def tag_of(kind: type) -> Callable[[Writer, Any, int], Any] | None:
    module = kind.__module__.partition(".")[0]  # of some versions, `pathlib._local`
    write = _TAGS.get("{}.{}".format(module, kind.__qualname__))
    is_it = write is not None and getattr(sys.modules.get(module), kind.__name__, None) is kind
    return write if is_it else None
