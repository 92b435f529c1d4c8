"""What of an installer's output is told on: its last meaningful lines, without a login. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

LINES = 12
CHARACTERS = 400
"""Of one line."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_LOGIN = re.compile(r"://[^/@\s]+@")
_BEGINS = re.compile(r"\s*(error\b|ERROR\b|\u00d7)")
_UNREACHED = (
    "client error (Connect)", "after connection broken by", "dns error", "Network is unreachable",
    "Temporary failure in name resolution", "tcp connect error",
)  # fmt: skip
"""Of uv, and of the libraries that pip stands on. What pip says itself then is that there is no
such package."""
_FULL = ("No space left on device", "Disk quota exceeded")


def meaningful(output: str, secrets: Sequence[str] = ()) -> list[str]:
    """From where it says what is wrong; else its last lines."""
    for value in secrets:
        output = output.replace(value, "****")
    output = _LOGIN.sub("://****@", output)
    lines = [_ESCAPES.sub("", line).rstrip()[:CHARACTERS] for line in re.split(r"[\r\n]", output)]
    lines = [line for line in lines if line.strip()]
    begins = next((at for at, line in enumerate(lines) if _BEGINS.match(line)), None)
    if begins is None:
        return lines[-LINES:]
    told = lines[begins:]
    return told if len(told) <= LINES else [*told[:2], "...", *told[-(LINES - 3) :]]


def is_unreached(output: str) -> bool:
    """Whether an index or a repository did not answer."""
    return any(words in output for words in _UNREACHED)


def is_full(output: str) -> bool:
    """Whether the disk had no room for it."""
    return any(words in output for words in _FULL)
