"""Patterns of files to leave out, as gitignore(5) has them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class _Pattern(NamedTuple):
    matches: re.Pattern[str]
    leaves_out: bool
    folders_alone: bool


class Rules:
    """The patterns of one file, for paths relative to the folder of that file."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [made for line in lines if (made := _pattern(line)) is not None]
        self.brings_back = any(not pattern.leaves_out for pattern in self._patterns)
        """Whether a pattern begins with `!`."""

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def leaves_out(self, path: str, *, is_folder: bool = False) -> bool | None:
        """Whether the last pattern that matches leaves it out; None where none does. Folders
        above it are not looked at."""
        for pattern in reversed(self._patterns):
            if (is_folder or not pattern.folders_alone) and pattern.matches.fullmatch(path):
                return pattern.leaves_out
        return None

    def fate(self, path: str) -> bool | None:
        """The same for a file with the folders above it. What is in a folder that is left out
        cannot be brought back; what is in one that is brought back is, unless it is left out."""
        verdict = None
        at = path.find("/")
        while at >= 0:
            verdict = _or(self.leaves_out(path[:at], is_folder=True), verdict)
            if verdict:
                return True
            at = path.find("/", at + 1)
        return _or(self.leaves_out(path), verdict)


def _or(newer: bool | None, older: bool | None) -> bool | None:
    return older if newer is None else newer


def _pattern(line: str) -> _Pattern | None:
    text = line.rstrip("\r\n")
    while text.endswith((" ", "\t")) and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    leaves_out = not text.startswith("!")
    text = text[not leaves_out :]
    folders_alone = text.endswith("/")
    text = text.rstrip("/") if folders_alone else text
    is_anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    try:
        matches = re.compile(("" if is_anchored else "(?:.*/)?") + _regex(text), re.DOTALL)
    except re.error:
        return None  # a range from z to a, say: git has it match nothing
    return _Pattern(matches, leaves_out, folders_alone)


def _regex(text: str) -> str:
    parts, at = [], 0
    while at < len(text):
        rest = text[at:]
        if rest.startswith("**/") and (at == 0 or text[at - 1] == "/"):
            parts.append("(?:.*/)?")
            at += 3
        elif rest == "**" and at and text[at - 1] == "/":
            parts.append(".+")
            at += 2
        elif rest[0] == "*":
            parts.append("[^/]*")
            at += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            parts.append("[^/]")
            at += 1
        elif rest[0] == "[":
            negated = rest[1:2] in ("!", "^")
            end = text.find("]", at + 2 + negated)
            if end < 0:
                return "(?!)"  # as git: what is not closed matches nothing
            inner = _CLASS_MARKS.sub(r"\\\g<0>", text[at + 1 + negated : end])
            parts.append(f"(?!/)[{'^' * negated}{inner}]")
            at = end + 1
        elif rest[0] == "\\" and len(rest) > 1:
            parts.append(re.escape(rest[1]))
            at += 2
        else:
            parts.append(re.escape(rest[0]))
            at += 1
    return "".join(parts)


_CLASS_MARKS = re.compile(r"[\[\\&~|^]")
