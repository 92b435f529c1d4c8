"""Records to rows and back, by one rule: a column is called as the field of its record.

A `Table` is made once per record type and knows its columns, its INSERT, and how each field is
kept. A new field of a record needs a column in a new schema file and, unless it is a plain number
or text, one line in its table's codecs.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")

Row = Sequence[Any]


class Codec(NamedTuple):
    """How one field is kept. None stays NULL and meets neither function."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any] | None


class Table(Generic[R]):
    """The rows of one record type. Immutable after construction but for caches; thread-safe."""

    def __init__(
        self,
        name: str,
        record: type[R],
        *,
        codecs: Mapping[str, Codec],
        given_by_store: Iterable[str] = (),
        derived: Mapping[str, Callable[[R], Any]] | None = None,
        computed: Mapping[str, str] | None = None,
    ) -> None:
        """`derived`: columns that repeat a part of the record, for an index; written once.
        `computed`: fields whose value an insert takes from an SQL expression."""
        fields = [f.name for f in dataclasses.fields(record)]  # type: ignore[arg-type]
        self.name = name
        self._record = record
        self._codecs = codecs
        self._decoders = tuple(
            (fields.index(field), codec.decode)
            for field, codec in codecs.items()
            if codec.decode is not None
        )
        computed = computed or {}
        written = [f for f in fields if f not in {*given_by_store, *computed}]
        self._values: Callable[[R], tuple[Any, ...]] = attrgetter(*written)
        self._encoders = tuple((written.index(field), c.encode) for field, c in codecs.items())
        self._derived = tuple((derived or {}).values())
        self._updates: dict[tuple[str, ...], str] = {}
        self.columns = ", ".join(f'{name}."{f}"' for f in fields)
        """For `SELECT {columns} FROM ...`, in the order that `record` expects."""
        written += derived or ()
        self.insert = (
            f"INSERT INTO {name} ({', '.join(map(_quoted, [*written, *computed]))})"
            f" VALUES ({', '.join(['?'] * len(written) + list(computed.values()))})"
        )

    def record(self, row: Row) -> R:
        values = list(row)
        for position, decode in self._decoders:
            value = values[position]
            if value is not None:
                values[position] = decode(value)
        return self._record(*values)

    def row(self, record: R) -> list[Any]:
        """The parameters of `insert`."""
        values = list(self._values(record))
        for position, encode in self._encoders:
            value = values[position]
            if value is not None:
                values[position] = encode(value)
        values += [derive(record) for derive in self._derived]
        return values

    def assignments(self, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """The SET clause for `values` and its parameters."""
        key = tuple(values)
        clause = self._updates.get(key)
        if clause is None:
            clause = self._updates[key] = ", ".join(f"{_quoted(name)} = ?" for name in key)
        parameters = []
        for name, value in values.items():
            codec = self._codecs.get(name)
            parameters.append(value if codec is None or value is None else codec.encode(value))
        return clause, parameters


def plain_text(value: str) -> str:
    """`value` with what no text column can hold made visible: bytes that are not UTF-8 (of a
    foreign file name), and NUL, which PostgreSQL refuses."""
    if "\0" in value:
        value = value.replace("\0", "\\x00")
    if value.isascii():
        return str(value)
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def as_enum(kind: type[StrEnum]) -> Codec:
    members = {member.value: member for member in kind}
    return Codec(str, members.__getitem__)


def _plain(value: Any) -> Any:
    """One level; the encoder comes back for the next. `asdict` would copy all of it first."""
    if isinstance(value, Mapping):
        return dict(value)
    return {name: getattr(value, name) for name in _field_names(value.__class__)}


@cache
def _field_names(record: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(record))


# ASCII only: surrogates (bytes of argv that are not UTF-8) survive as escapes.
to_json: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), default=_plain).encode

NO_LIMIT = 2**63 - 1
"""For a LIMIT: SQLite takes any negative number for it, PostgreSQL none."""

JSON = Codec(to_json, json.loads)
JSON_TUPLE = Codec(to_json, lambda text: tuple(json.loads(text)) if text != "[]" else ())
FLAG = Codec(int, bool)
TEXT = Codec(plain_text, None)
PATH = Codec(
    lambda path: path.encode("utf-8", "surrogateescape"),
    lambda raw: raw.decode("utf-8", "surrogateescape"),
)


def _quoted(name: str) -> str:
    return f'"{name}"'
