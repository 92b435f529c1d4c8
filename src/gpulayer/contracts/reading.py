"""What a job file gave: the value, where each part of it stands, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpulayer.contracts import limits
from gpulayer.errors import Problem

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class SourceMap:
    """The line, from 1, of each key and item of a file."""

    lines: Mapping[Path, int]

    def line(self, path: Path) -> int:
        """Of the path, or of the nearest thing around it that the file has."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


@dataclass(slots=True)
class Reading:
    """A file as far as it could be read. Lines and problems are added while reading."""

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def count(self, line: int, depth: int, more: int = 1) -> None:
        """Note that there are more values; refuse a file that is too large or nested too deep."""
        self.nodes += more
        if self.nodes > limits.FILE_NODES:
            raise BrokenFileError(f"has more than {limits.FILE_NODES} values", line)
        if depth > limits.FILE_DEPTH:
            raise BrokenFileError(f"is nested deeper than {limits.FILE_DEPTH} levels", line)

    def set_once(self, into: dict[str, Any], path: Path, value: Any, line: int) -> None:
        """Set the last step of the path; a key that is there already is a problem."""
        key = str(path[-1])
        if key in into:
            before = self.lines.get(path, line)
            self.wrong(path, f"is given twice, first in line {before}", "keep one of them", line)
        into[key] = value
        self.lines[path] = line

    def wrong(self, path: Path, message: str, mend: str, line: int) -> None:
        from gpulayer.contracts.problems import dotted

        self.problems.append(Problem(dotted(path), message, mend, line, "invalid-file"))


class BrokenFileError(Exception):
    """Nothing after this line can be read."""

    def __init__(self, message: str, line: int, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.mend = mend
