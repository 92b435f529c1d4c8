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


class Opened:
    """The files of calls that one process reads from, each held open: its calls come one by one."""

    def __init__(self) -> None:
        self._files: dict[Any, _Calls] = {}

    def arguments(self, args: list[Any], source: Source, folder: str) -> list[Any]:
        """Those of the call that `args` name in its place. Raises Unreadable. `folder` is where the
        `source` has its files."""
        if args and is_tagged(args[-1]) and "args" in args[-1]:
            return [*args[:-1], *_list(args[-1]["args"])]
        if len(args) > 1 and is_tagged(args[-2]) and "calls" in args[-2]:
            return [*args[:-2], *self._read(args[-2]["calls"], args[-1], source, folder)]
        return args

    def _read(self, name: Any, number: Any, source: Source, folder: str) -> list[Any]:
        if type(name) is not str or NAME.match(name) is None or type(number) is not int:
            raise Unreadable("it names a file that cannot be one of its own")
        try:
            if (folder, name) not in self._files:
                self._files[folder, name] = _Calls(source.open(name))
            return _list(json.loads(self._files[folder, name].text(number)))
        except (OSError, ValueError, struct.error) as error:
            text = "call {} of {} cannot be read: {}".format(number, name, error)
            raise Unreadable(text) from None


class _Calls:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        end = file.seek(0, os.SEEK_END) - _NUMBER.size
        (self._count,) = _NUMBER.unpack(self._at(max(0, end), _NUMBER.size))
        self._table = end - (self._count + 1) * _NUMBER.size

    def text(self, number: int) -> bytes:
        if self._table < 0 or not 0 <= number < self._count:
            raise ValueError("it has no such call")
        start, stop = _PAIR.unpack(self._at(self._table + number * _NUMBER.size, _PAIR.size))
        if not start <= stop <= min(self._table, start + TEXT_BYTES):
            raise ValueError("it is damaged")
        return self._at(start, stop - start)

    def _at(self, place: int, size: int) -> bytes:
        # Not by a place that is shared with whoever the process forks.
        return os.pread(self._file.fileno(), size, place)


def _list(wires: Any) -> list[Any]:
    if type(wires) is not list:
        raise Unreadable("it is damaged: a call is no list")
    return wires
