"""Data sets: what a machine has on its disks, known to jobs by a name alone.

A worker declares names; the path of each stays on its machine. The job finds it in a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpulayer.contracts import limits
from gpulayer.errors import UsageError

PREFIX = "GPULAYER_DATA_"
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{limits.NAME_CHARACTERS}}}", re.ASCII)


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def variable(name: str) -> str:
    """`GPULAYER_DATA_IMAGENET` for `imagenet`."""
    return PREFIX + re.sub("[^A-Z0-9]", "_", name.upper())


def declared(names: Iterable[str]) -> tuple[str, ...]:
    """What a worker says that it has, in order. Raises `usage`."""
    found = tuple(sorted(set(names)))
    if len(found) > limits.CHOICES:
        raise UsageError("usage", f"a worker declares up to {limits.CHOICES} data sets")
    for name in found:
        if not is_name(name):
            raise UsageError("usage", f"{name[:80]!r} is not the name of a data set")
    return found
