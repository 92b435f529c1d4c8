"""The calls of a map, one for each element of an array: in the place of the element's item, or many
in one file, of which an element is given the number of its own.

    {"$gpulayer": 1, "args": [WIRE, ...]}       the call itself
    {"$gpulayer": 1, "calls": NAME}, NUMBER     that one of a file

In the file a JSON list of wires for each call, one after another; then where each begins and the
last ends, as 64-bit numbers; then how many there are. So one is read without the others.
"""

from __future__ import annotations

import json
import os
import struct
from array import array

from .limits import KEY, TEXT_BYTES, VERSION, Unreadable
from .reading import NAME, Source, is_tagged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

_NUMBER = struct.Struct(">Q")
_PAIR = struct.Struct(">QQ")


class CallsFile:
    """Writes such a file, call by call. What it holds in memory is 8 bytes for each."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._starts = array("Q", [0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def add(self, text: str) -> None:
        """A call as the JSON text of its list."""
        data = text.encode("ascii")
        self._file.write(data)
        self._starts.append(self._starts[-1] + len(data))

    def finish(self) -> None:
        """No more come."""
        for start in self._starts:
            self._file.write(_NUMBER.pack(start))
        self._file.write(_NUMBER.pack(len(self)))


def the_call(wires: list[Any]) -> dict[str, Any]:
    """A call in the place of an item."""
    return {KEY: VERSION, "args": wires}


def calls_in(name: str) -> dict[str, Any]:
    """The argument before the number of a call."""
    return {KEY: VERSION, "calls": name}


def opened(args: list[Any], source: Source) -> list[Any]:
    """The arguments with those of the call that they name in its place. Raises Unreadable."""
    if args and is_tagged(args[-1]) and "args" in args[-1]:
        return [*args[:-1], *_list(args[-1]["args"])]
    if len(args) > 1 and is_tagged(args[-2]) and "calls" in args[-2]:
        return [*args[:-2], *_read(args[-2]["calls"], args[-1], source)]
    return args


def _read(name: Any, number: Any, source: Source) -> list[Any]:
    if type(name) is not str or NAME.match(name) is None or type(number) is not int:
        raise Unreadable("it names a file that cannot be one of its own")
    try:
        with source.open(name) as file:
            return _list(json.loads(_text(file, number)))
    except (OSError, ValueError, struct.error) as error:
        raise Unreadable("call {} of {} cannot be read: {}".format(number, name, error)) from None


def _text(file: BinaryIO, number: int) -> bytes:
    end = file.seek(0, os.SEEK_END) - _NUMBER.size
    file.seek(max(0, end))
    (count,) = _NUMBER.unpack(file.read(_NUMBER.size))
    table = end - (count + 1) * _NUMBER.size
    if table < 0 or not 0 <= number < count:
        raise ValueError("it has no such call")
    file.seek(table + number * _NUMBER.size)
    start, stop = _PAIR.unpack(file.read(_PAIR.size))
    if not start <= stop <= min(table, start + TEXT_BYTES):
        raise ValueError("it is damaged")
    file.seek(start)
    return file.read(stop - start)


def _list(wires: Any) -> list[Any]:
    if type(wires) is not list:
        raise Unreadable("it is damaged: a call is no list")
    return wires
