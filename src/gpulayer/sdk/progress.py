"""One line on a terminal while a program waits for an array: how much has ended, how much failed.

It is there only while the program waits, and gone before it goes on: what the program prints itself
is never mixed with it. Where standard error is no terminal, nothing is written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

from gpulayer.sdk.terminal import size

WIDTH = 24
_CLEAR = "\r\x1b[K"


class Progress:
    """Used by one thread."""

    pause_seconds = 0.5
    """How often the line is renewed, at least, while nothing ends."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._stream = stream
        self._is_shown = False
        self.array: Mapping[str, int] | None = None
        """The counts as they were told last."""

    def show(self) -> None:
        """How far the array is, once anything is known of it."""
        if self.array is None:
            return
        text = line(self._name, self.array, size(self._stream.fileno())[1] - 1)
        self._stream.write(_CLEAR + text)
        self._stream.flush()
        self._is_shown = True

    def clear(self) -> None:
        """The terminal as it was before."""
        if self._is_shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._is_shown = False


def on_terminal(name: str, wanted: bool | None) -> Progress | None:
    """None: unless it is wanted, where nobody would see it or the terminal cannot take a line
    back."""
    stream = sys.stderr
    if wanted is False or stream is None:
        return None
    if not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return None
    return Progress(name, stream)


def line(name: str, array: Mapping[str, int], columns: int) -> str:
    """`square [######......] 500/1000, 3 failed, 8 running`, no wider than that."""
    total = max(1, array["elements"])
    done = total - array["waiting"] - array["running"]
    full = WIDTH * done // total
    bad = array["failed"] + array["timed_out"]
    words = [f"{name} [{'#' * full}{'.' * (WIDTH - full)}] {done}/{total}"]
    words += [f"{bad} failed"] if bad else []
    words += [f"{array['running']} running"] if array["running"] else []
    return ", ".join(words)[: max(0, columns)]
