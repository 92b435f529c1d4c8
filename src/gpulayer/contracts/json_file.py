"""JSON text with the line of every key and item (RFC 8259; a key given twice is a problem).

The standard library reads the words; only objects and lists are walked here, because it does not
say where they stand.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any, NoReturn

from gpulayer.contracts.reading import BrokenFileError, Path, Reading

_BLANK = re.compile(r"[ \t\n\r]*")


def read_json(text: str) -> Reading:
    """Raises `BrokenFileError` where the text stops being JSON."""
    walk = _Walk(text)
    value, end = walk.value(walk.skip(0), ())
    end = walk.skip(end)
    if end != len(text):
        walk.broken("has more after the end of the object", end, "one file holds one job")
    walk.reading.value = value
    return walk.reading


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.reading = Reading()
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._word = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode

    def value(self, at: int, path: Path) -> tuple[Any, int]:
        self.reading.count(self.line(at), len(path) + self.text.startswith(("{", "["), at))
        if self.text.startswith("{", at):
            return self.object(at, path)
        if self.text.startswith("[", at):
            return self.list(at, path)
        return self.word(at)

    def object(self, at: int, path: Path) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        at = self.skip(at + 1)
        while not self.text.startswith("}", at):
            if found:
                at = self.expect(",", at, "between two fields")
            if not self.text.startswith('"', at):
                self.broken("needs a key in double quotes here", at, _after_comma(self.text, at))
            line = self.line(at)
            key, at = self.word(at)
            at = self.expect(":", at, "after a key")
            value, at = self.value(at, (*path, key))
            self.reading.set_once(found, (*path, key), value, line)
            at = self.skip(at)
        return found, at + 1

    def list(self, at: int, path: Path) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self.skip(at + 1)
        while not self.text.startswith("]", at):
            if found:
                at = self.expect(",", at, "between two items")
            self.reading.lines[*path, len(found)] = self.line(at)
            value, at = self.value(at, (*path, len(found)))
            found.append(value)
            at = self.skip(at)
        return found, at + 1

    def word(self, at: int) -> tuple[Any, int]:
        try:
            return self._word(self.text, at)
        except json.JSONDecodeError as error:
            what = error.msg[:1].lower() + error.msg[1:]
            self.broken(f"is not JSON: {what}", error.pos, _after_comma(self.text, at))
        except ValueError as error:
            self.broken(f"is not JSON: {error}", at)

    def expect(self, sign: str, at: int, where: str) -> int:
        at = self.skip(at)
        if not self.text.startswith(sign, at):
            self.broken(f"is not JSON: a {sign} is missing {where}", at, f"put a {sign} there")
        return self.skip(at + 1)

    def skip(self, at: int) -> int:
        blank = _BLANK.match(self.text, at)
        return blank.end() if blank else at

    def line(self, at: int) -> int:
        return bisect_right(self._ends, at - 1) + 1

    def broken(self, message: str, at: int, mend: str = "") -> NoReturn:
        raise BrokenFileError(message, self.line(at), mend)


def _after_comma(text: str, at: int) -> str:
    return "take the comma before it out" if text[:at].rstrip().endswith(",") else ""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value that JSON has")
