"""The bounds of a value, and what is raised past them."""

from __future__ import annotations

import binascii

KEY = "$gpulayer"
"""The one key that tells a tagged value from plain JSON. A dict of the user's that has it is tagged
itself, so nothing is ambiguous."""

VERSION = 1
MAX_DEPTH = 200
"""Parts inside each other. Deeper values are refused rather than left to the recursion limits of
two interpreters."""

MAX_TAG_DEPTH = 100
"""The same for parts that are not plain JSON, which take more of those limits."""

MAX_INT_BITS = 14_000
"""About 4,200 digits; Python refuses to read longer ones as decimals (CVE-2020-10735)."""

MAX_PARTS = 4_000_000
"""Parts of one value, each use of a shared one counted: a few lists can name each other so that
they would be more than any memory holds."""

TEXT_BYTES = 256 << 20
"""A value as JSON, in memory here and where it is read."""

INLINE_BLOB_BYTES = 4 << 10
"""An array up to here stands in the JSON itself."""

OWN_FILE_BYTES = 1 << 20
"""An array from here on has a file of its own; what is between shares one."""

MAX_FILES = 250
"""Files of one call; a job has up to 1,024 inputs."""


def to_base64(value: object) -> str:
    return binascii.b2a_base64(value, newline=False).decode("ascii")  # type: ignore[arg-type]


def from_base64(text: str) -> bytes:
    """Raises ValueError for anything but what `to_base64` writes."""
    found = binascii.a2b_base64(text)
    if to_base64(found) != text:
        raise ValueError("text is no base64")
    return found


class NotPortable(Exception):
    """A value that would not come back the same. `parts` leads from the whole to it, reversed."""

    def __init__(self, problem: str, mend: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.mend = mend
        self.parts: list[str] = []

    def at(self, place: str) -> str:
        """`args[0]['x'][3] is ...`."""
        return place + "".join(reversed(self.parts)) + " " + self.problem


def not_finite(value: object) -> NotPortable:
    """For NaN and the infinities, which JSON cannot hold; inside arrays they are bytes."""
    return NotPortable("is {}, which JSON cannot hold".format(value), "use None")


class TooLarge(NotPortable):
    pass


class Unreadable(Exception):
    """What came is no value of ours, or cannot be made here. `lacks`: the module that would do."""

    def __init__(self, problem: str, lacks: str = "") -> None:
        super().__init__(problem)
        self.lacks = lacks
