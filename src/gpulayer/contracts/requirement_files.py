"""A requirements file, line by line, with the number of each. Pure, and light: no pydantic.

Joined are lines that end in a backslash; left out are comments and blank lines. `--hash` is the one
option that is a part of a requirement: it says what the package is, never where it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"(^|\s+)#.*$")
_HASH = re.compile(r"\s+--hash[=\s]\s*(\w+:[0-9a-fA-F]+)(?=\s|$)")

ALLOW = "GPULAYER_REQUIREMENT_LINES"
"""`any` in the environment of a worker, or of a terminal for jobs here: options and addresses in a
file go to the installer."""
PLAIN_ENDS = (".txt", ".in")
LOCK = "uv.lock"
PROJECT = "pyproject.toml"
_PYLOCK = re.compile(r"pylock(\.[^.]+)?\.toml")
"""PEP 751 says how such a file is called."""


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    text: str
    """Without its hashes."""
    hashes: tuple[str, ...] = ()
    """`sha256:...` each."""


def lines_of(text: str) -> Iterator[Line]:
    begins, said = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        begins = begins if said else number
        line = _COMMENT.sub("", raw).rstrip()
        if line.endswith("\\"):
            said += line[:-1] + " "
            continue
        if whole := (said + line).strip():
            yield Line(begins, _HASH.sub("", whole).strip(), tuple(_HASH.findall(whole)))
        said = ""
    if said.strip():
        yield Line(begins, f"{said.strip()} \\")


def is_pylock(name: str) -> bool:
    return _PYLOCK.fullmatch(name) is not None


def names_a_file(text: str) -> bool:
    """Whether the word is a file of one of these kinds, there or not: `requirements.txt` and
    `uv.lock` could be names of packages too."""
    return text.endswith((*PLAIN_ENDS, ".toml", ".lock"))
