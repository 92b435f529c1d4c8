"""Values for the round trip: drawn from a seed, compared part by part, spoiled at a known place."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import io
import math
import pathlib
import random
import struct
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, BinaryIO

from gpulayer.runtime import values


class Colour(enum.Enum):
    RED = "r"
    BLUE = ("b", 2)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    """One that changes what it is given: made anew, it would not be equal."""

    name: Any
    twice: Any = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", [self.name])


class Memory(values.Sink, values.Source):
    """Files in memory, for a sink and the source that reads them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def store(self, ending: str, write: Callable[[BinaryIO], object], key: object = None) -> str:
        name = f"{len(self.files)}.{ending}"
        body = io.BytesIO()
        write(body)
        self.files[name] = body.getvalue()
        return name

    def pack(self, write: Callable[[BinaryIO], object]) -> dict[str, Any]:
        body = io.BytesIO()
        body.write(self.files.get("pack.bin", b""))
        at = body.tell()
        write(body)
        self.files["pack.bin"] = body.getvalue()
        return {"file": "pack.bin", "at": at, "size": body.tell() - at}

    def open(self, name: str) -> BinaryIO:
        if name not in self.files:
            raise FileNotFoundError(2, "there is no such file")
        return io.BytesIO(self.files[name])


NAMES = ["", "a", "x", "$set", "$gpulayer", "é", "key with space", "\0", "😀", "\ud800", "a'b"]
ZONES: list[Any] = [
    None,
    dt.UTC,
    dt.timezone(dt.timedelta(hours=5, minutes=30)),
    dt.timezone(dt.timedelta(seconds=-3601, microseconds=5), "odd"),
    zoneinfo.ZoneInfo("Europe/Rome"),
]
FLOATS = [0.0, -0.0, 0.1, 1e308, 5e-324, -1.5, 1e16, 123456789.123456789]
TEXTS = ["", "plain", "é\n\0😀", "\ud83d\ude00", "\udfff", "a" * 200, "$tuple", '"\\']


def _moment(draw: random.Random) -> dt.datetime:
    return dt.datetime(
        draw.randint(1, 9999), draw.randint(1, 12), draw.randint(1, 28), draw.randint(0, 23),
        draw.randint(0, 59), draw.randint(0, 59), draw.choice([0, draw.randint(1, 999_999)]),
        draw.choice(ZONES), fold=draw.randint(0, 1),
    )  # fmt: skip


SIMPLE: list[Callable[[random.Random], Any]] = [
    lambda draw: None,
    lambda draw: draw.random() < 0.5,
    lambda draw: draw.randint(-10, 300),
    lambda draw: draw.getrandbits(draw.choice([31, 63, 64, 200])) * draw.choice([1, -1]),
    lambda draw: draw.choice(FLOATS),
    lambda draw: draw.uniform(-1e9, 1e9),
    lambda draw: struct.unpack("<d", struct.pack("<Q", draw.getrandbits(62)))[0],
    lambda draw: draw.choice(TEXTS),
    lambda draw: "".join(chr(draw.randint(0, 0x2FFF)) for _ in range(draw.randint(0, 8))),
]
HASHABLE: list[Callable[[random.Random], Any]] = [
    *SIMPLE,
    lambda draw: draw.randbytes(draw.randint(0, 20)),
    lambda draw: complex(draw.choice(FLOATS), draw.choice(FLOATS)),
    lambda draw: decimal.Decimal(draw.choice(["0", "-0", "1.50", "1E+400", "-7.000001"])),
    _moment,
    lambda draw: _moment(draw).date(),
    lambda draw: _moment(draw).timetz(),
    lambda draw: dt.timedelta(draw.randint(-9, 9), draw.randint(0, 86_399), draw.randint(0, 9)),
    lambda draw: draw.choice(ZONES[1:]),
    lambda draw: uuid.UUID(int=draw.getrandbits(128)),
    lambda draw: pathlib.Path(draw.choice(["a", "/a/b", "..", "é", "\udcff"])),
    lambda draw: pathlib.PurePosixPath(draw.choice(["//a", "b"])),
    lambda draw: pathlib.PureWindowsPath(draw.choice(["c:\\a", "b"])),
    lambda draw: draw.choice([*Colour, *Level]),
    lambda draw: tuple(hashable(draw) for _ in range(draw.randint(0, 3))),
    lambda draw: frozenset(hashable(draw) for _ in range(draw.randint(0, 3))),
    lambda draw: Frozen(hashable(draw)),
]


def hashable(draw: random.Random) -> Any:
    kinds = HASHABLE if draw.random() < 0.3 else SIMPLE
    while True:
        made = draw.choice(kinds)(draw)
        try:
            hash(made)
        except TypeError:  # a frozen dataclass of a list
            continue
        return made


def value(draw: random.Random, depth: int = 0) -> Any:
    """Any value that travels."""
    if depth > 4 or draw.random() < 0.4:
        return draw.choice(HASHABLE if draw.random() < 0.4 else SIMPLE)(draw)
    count = draw.choice([0, 1, 2, 3])
    kind = draw.randrange(9)
    if kind <= 2:
        return [value(draw, depth + 1) for _ in range(count)]
    if kind <= 4:
        return {draw.choice(NAMES): value(draw, depth + 1) for _ in range(count)}
    if kind == 5:
        return {hashable(draw): value(draw, depth + 1) for _ in range(count)}
    if kind == 6:
        return tuple(value(draw, depth + 1) for _ in range(count))
    if kind == 7:
        return draw.choice([set, frozenset])(hashable(draw) for _ in range(count))
    rare = draw.randrange(5)
    if rare == 0:
        shared = value(draw, depth + 1)
        return [shared, shared, (shared,)]
    if rare == 1:
        return collections.OrderedDict((hashable(draw), value(draw, depth + 1)) for _ in range(2))
    if rare == 2:
        return bytearray(draw.randbytes(count))
    if rare == 3:
        return 1 << draw.randint(14_000, 15_000)
    return Point(value(draw, depth + 1), value(draw, depth + 1))


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Pair(collections.namedtuple("Pair", "a b")):
    __slots__ = ()


@dataclasses.dataclass(eq=False)
class Unequal:
    x: int = 1


def _knot() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def _local() -> Any:
    @dataclasses.dataclass
    class Local:
        x: int = 1

    return Local()


def _more() -> Point:
    made = Point(1)
    made.__dict__["z"] = 2
    return made


SPOILED: list[tuple[Callable[[], Any], str]] = [
    (lambda: math.nan, ""),
    (lambda: -math.inf, ""),
    (lambda: complex(1, math.nan), ""),
    (lambda: decimal.Decimal("NaN"), ""),
    (object, ""),
    (lambda: len, ""),
    (lambda: Text("a"), ""),
    (lambda: Number(3), ""),
    (lambda: Pair(1, 2), ""),
    (lambda: collections.defaultdict(list), ""),
    (lambda: collections.Counter("a"), ""),
    (lambda: range(3), ""),
    (lambda: {object(): 1}, ""),
    (lambda: {1: 2, math.nan: 1}, ""),
    (lambda: {math.inf}, ""),
    (Unequal, ""),
    (_local, ""),
    (_more, ""),
    (_knot, "[0]"),
    (lambda: Point(1, [object]), ".y[0]"),
    (lambda: (1, iter(())), "[1]"),
]
"""(what cannot travel, where in it the fault is)"""


def spoiled(draw: random.Random) -> tuple[Any, str]:
    """A value that cannot travel, and the place of what is wrong."""
    make, place = draw.choice(SPOILED)
    made: Any = make()
    for _ in range(draw.randint(0, 5)):
        kind = draw.randrange(5)
        before = [value(draw, 3) for _ in range(draw.randint(0, 2))]
        if kind == 0:
            made, place = [*before, made, object()], f"[{len(before)}]{place}"
        elif kind == 1:
            made, place = (*before, made), f"[{len(before)}]{place}"
        elif kind == 2:
            name = draw.choice(NAMES)
            made, place = {name: made}, f"[{name!r}]{place}"
        elif kind == 3:
            number = draw.randint(-5, 5)
            made, place = {"a": 1, number: made}, f"[{number}]{place}"
        else:
            made, place = Point(before, made), f".y{place}"
    return made, place


def same(left: Any, right: Any) -> bool:
    """Equal, with equal types all the way down and in the same order."""
    kind = type(left)
    if kind is not type(right):
        return False
    if kind in (list, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if kind in (dict, collections.OrderedDict):
        return len(left) == len(right) and all(
            same(one, other) for one, other in zip(left.items(), right.items(), strict=True)
        )
    if kind in (set, frozenset):
        return bool(left == right) and {type(one) for one in left} == {type(one) for one in right}
    if kind is float:
        return struct.pack("<d", left) == struct.pack("<d", right)
    if kind is complex:
        return same([left.real, left.imag], [right.real, right.imag])
    if kind in (Point, Frozen):
        return bool(left == right) and same(vars(left), vars(right))
    if kind is dt.datetime or kind is dt.time:
        return left == right and same(
            [left.tzinfo, left.fold, str(left)], [right.tzinfo, right.fold, str(right)]
        )
    if kind is decimal.Decimal:
        return bool(left.as_tuple() == right.as_tuple())
    return bool(left == right)
