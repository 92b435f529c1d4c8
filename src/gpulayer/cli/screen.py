"""Bytes of a job's log on their way to a stream of ours.

A pipe or file gets them byte for byte. A terminal gets text, tabs, line ends, carriage returns
and colours; whatever else a program may send to command a terminal (titles, clipboard, answers,
cursor moves; ECMA-48) is left out, since the log may be another's.
"""

from __future__ import annotations

import re
from typing import TextIO

_COMMANDS = re.compile(
    rb"\x1b\[[0-9;:]*m"  # colours stay
    rb"|(\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]"
    rb"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f])",
    re.DOTALL,
)
_OPEN = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*(?:\x1b)?)?$", re.DOTALL)
_LONGEST_COMMAND = 4096


class Screen:
    """One stream of ours. Keeps the start of a command that the last piece cut in two."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Write at once; nothing but an unfinished command is held back."""
        if self._is_terminal:
            data = self._rest + data
            cut = _OPEN.search(data)
            self._rest = b""
            if cut is not None and len(data) - cut.start() < _LONGEST_COMMAND:
                data, self._rest = data[: cut.start()], data[cut.start() :]
            data = without_commands(data)
        self._stream.buffer.write(data)
        self._stream.buffer.flush()


def without_commands(data: bytes) -> bytes:
    """`data` less everything that would command a terminal, colours excepted."""
    return _COMMANDS.sub(lambda m: b"" if m.group(1) is not None else m.group(0), data)
