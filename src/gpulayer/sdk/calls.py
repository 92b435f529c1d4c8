"""The calls of a map, written before anything is submitted: few and small ones as the items of the
array, all others as one file that goes along as an artifact. Each call is written and let go of, so
that the items may come from a generator and need not be in memory together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from gpulayer.contracts import limits
from gpulayer.errors import UsageError
from gpulayer.runtime import values
from gpulayer.runtime.values.limits import TEXT_BYTES
from gpulayer.sdk.values import INLINE_BYTES, Arguments, Files, written_value

INLINE_CALLS = 1_000
"""So many calls stand in the spec, where they have no more than `INLINE_BYTES` together: the plane
reads it each time that it hands some of them out."""

SHARED = 8
"""Large arrays that are remembered, to be named again instead of written again. They stay in memory
for it."""


@dataclass(frozen=True, slots=True)
class Calls:
    """How a spec holds them."""

    count: int
    array: dict[str, Any]
    args: list[Any] = field(default_factory=list)
    """Of the workload, before what each element is given."""
    inputs: list[dict[str, Any]] = field(default_factory=list)


def written(calls: Iterable[tuple[Any, ...]], arguments: Arguments) -> Calls:
    """Raises UsageError with the number of the first item that cannot travel, and what the items
    raise themselves. Nothing is sent yet: see `Arguments.flush`."""
    return _written(calls, arguments, _parts)


def written_json(items: Iterable[tuple[str, Any]], arguments: Arguments) -> Calls:
    """The same of items that are JSON already, each with its place: values in the form in which
    they travel, or `{"$gpulayer": 1, "args": [...]}` of them for a function of several arguments.
    """
    return _written(items, arguments, _parts_of_json)


def _written(
    calls: Iterable[tuple[Any, ...]],
    arguments: Arguments,
    parts_of: Callable[[int, tuple[Any, ...], values.Sink], list[values.Written]],
) -> Calls:
    sink = _Sink(arguments.folder_of_call)
    few: list[list[values.Written]] = []
    left, count = INLINE_BYTES, 0
    numbered = enumerate(calls)
    for number, args in numbered:
        few.append(parts_of(number, args, sink))
        left -= sum(len(part.text) for part in few[-1])
        count = number + 1
        if left < 0 or count > INLINE_CALLS or sink.names:
            break
    else:
        return Calls(count, {"items": [_item(parts) for parts in few]})
    name = sink.take_name("bin")
    with sink.open(name) as file:
        many = values.CallsFile(file)
        for parts in few:
            many.add(_text(parts))
        few.clear()
        for number, args in numbered:
            many.add(_text(parts_of(number, args, sink)))
        many.finish()
    array = {"count": len(many)}
    return Calls(len(many), array, [values.calls_in(name)], arguments.collected(sink))


def _parts(number: int, args: tuple[Any, ...], sink: values.Sink) -> list[values.Written]:
    _require_room(number)
    return [
        written_value(f"item {number}: args[{place}]", value, sink, TEXT_BYTES)
        for place, value in enumerate(args)
    ]


def _parts_of_json(number: int, placed: tuple[Any, ...], sink: values.Sink) -> list[values.Written]:
    _require_room(number)
    place, item = placed
    several = values.is_tagged(item) and type(item.get("args")) is list
    wires = item["args"] if several else [item]
    return [
        values.Written(wire, json.dumps(wire, separators=(",", ":")))
        if values.is_tagged(wire)
        else written_value(place, wire, sink, TEXT_BYTES)
        for wire in wires
    ]


def _require_room(number: int) -> None:
    if number >= limits.ARRAY_ELEMENTS:
        raise UsageError(
            "too-large",
            f"a map has up to {limits.ARRAY_ELEMENTS} items, and more were given",
            hint="gpulayer help too-large",
        )


def _item(parts: list[values.Written]) -> Any:
    """What a function of one argument is given is the item itself."""
    wires = [part.wire for part in parts]
    return wires[0] if len(wires) == 1 else values.the_call(wires)


def _text(parts: list[values.Written]) -> str:
    return f"[{','.join(part.text for part in parts)}]"


class _Sink(Files):
    """The files of all calls together. Their folder is made with the first."""

    def __init__(self, folder: Callable[[], str]) -> None:
        super().__init__()
        self._make = folder

    def store(self, ending: str, write: Callable[[BinaryIO], object], key: object = None) -> str:
        self._begin()
        name = super().store(ending, write, key)
        if len(self._stored) > SHARED:
            del self._stored[next(iter(self._stored))]
        return name

    def pack(self, write: Callable[[BinaryIO], object]) -> dict[str, Any]:
        self._begin()
        return super().pack(write)

    def open(self, name: str) -> BinaryIO:
        self._begin()
        os.makedirs(self.folder, exist_ok=True)
        return open(os.path.join(self.folder, name), "wb")

    def kept(self) -> list[tuple[object, str]]:
        return []

    def _begin(self) -> None:
        if not self.folder:
            self.folder = self._make()
