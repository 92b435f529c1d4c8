"""What a program says of its run: numbers by name, each a line in a file that its worker reads.

The standard library alone, any Python from 3.8 up: it is also loaded where GPUlayer is not
installed. A line is written at once, in one piece, so that a killed program has lost none.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VARIABLE = "GPULAYER_METRICS_FILE"
"""Where the lines go. Any program may add some: {"step": 3, "at": SECONDS, "values": {NAME: X}}."""
INDEX = "GPULAYER_ARRAY_INDEX"
MAX_LINE = 256 << 10
"""Bytes; a longer line is not read."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


class _File:
    """The one that is open now."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.path = ""
        self.fd = -1
        self.calls = 0
        """Reports without a step."""


_file = _File()


def report(values: Mapping[str, Any] | None = None, step: int | None = None, **named: Any) -> None:
    """Tell numbers of the job that this runs in: `report({"loss": 0.1}, step=50)` or
    `report(loss=0.1)`. `step` counts the calls where it is not said. `gpulayer metrics JOB` reads
    them back.

    Outside of a job, and in other ranks than 0 of a distributed one, it does nothing. A value is
    anything that `float` takes but text; a tensor is read from its device. Raises TypeError for
    what is no number. A disk that takes nothing more is told once, and ends no program. Safe from
    any thread, and after a fork.
    """
    path = os.environ.get(VARIABLE)
    if not path or is_follower():
        return
    told = {**values, **named} if values else named
    numbers = {str(name): _number(name, value) for name, value in told.items()}
    if step is None:
        step, _file.calls = _file.calls, _file.calls + 1
    index = os.environ.get(INDEX, "")
    whose = ',"index":' + index if index.isdigit() else ""
    line = '{"step":%d,"at":%r%s,"values":%s}\n' % (step, time.time(), whose, _encode(numbers))
    _write(path, line.encode("ascii"))


def is_follower() -> bool:
    """Whether another process of the same job speaks for it."""
    rank = os.environ.get("RANK")
    return rank is not None and rank != "0" and "WORLD_SIZE" in os.environ


def _number(name: object, value: Any) -> float:
    kind = type(value)
    if kind is float or kind is int:
        return value  # type: ignore[no-any-return]
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError("report: '{}' is a {}, not a number".format(name, kind.__name__))
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError("report: '{}' is not a number: {}".format(name, error)) from None


def _write(path: str, line: bytes) -> None:
    if _file.path != path:
        with _file.lock:
            _open(path)
    if _file.fd < 0:
        return
    try:
        os.write(_file.fd, line)
    except OSError as error:
        _give_up(error)


def _open(path: str) -> None:
    if _file.path == path:
        return  # another thread did
    if _file.fd >= 0:
        os.close(_file.fd)
        _file.fd = -1
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        _file.fd = os.open(path, flags, 0o600)
    except OSError as error:
        _give_up(error)
    _file.path = path


def _give_up(error: OSError) -> None:
    _file.fd = -1
    why = error.strerror or str(error)
    print("gpulayer: no more metrics are kept: " + why, file=sys.stderr)  # noqa: T201  for people
