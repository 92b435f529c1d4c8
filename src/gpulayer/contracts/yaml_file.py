"""YAML text with the line of every key and item, where a plain word means what it means in JSON.

YAML 1.1 reads `on`, `no`, `1:30` and `010` as something that nobody wrote; here everything but
null, true, false and JSON's numbers is text, and a key is always text. Built from the parser's
events, which come one by one: nesting costs no stack, and what an alias stands for is counted each
time, so that a few lines cannot become a million values (the "billion laughs" document). Tags would
make objects of our own, so only `!!str` is taken.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

from gpulayer.contracts.reading import BrokenFileError, Path, Reading

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,4})?", re.ASCII)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


def read_yaml(text: str) -> Reading:
    """Raises `BrokenFileError` where the text stops being YAML."""
    build = _Build()
    try:
        for event in yaml.parse(text, Loader=_PARSER):
            build.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line, text.count("\n")) + 1 if mark is not None else 1
        raise BrokenFileError(f"is not YAML: {error.problem or error.context}", line) from None
    except yaml.YAMLError:
        raise BrokenFileError(
            "is not YAML: it has a control character", _first_control(text), "take it out"
        ) from None
    return build.reading


@dataclass(slots=True)
class _Open:
    """A list or object whose end has not come yet."""

    value: Any
    path: Path
    anchor: str | None
    nodes_before: int
    key: str | None = None
    key_line: int = 0


class _Build:
    def __init__(self) -> None:
        self.reading = Reading()
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise BrokenFileError("has a second document", line, "one file holds one job")
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "", line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            self._remember(done.anchor, done.value, self.reading.nodes - done.nodes_before)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        within = self._open[-1] if self._open else None
        if within is not None and isinstance(within.value, dict) and within.key is None:
            within.key, within.key_line = event.value, line
            self._remember(event.anchor, event.value, 1)
            return
        self.reading.count(line, len(self._open))
        value = event.value
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            self.reading.wrong(self._place(), "has a tag", "take it out", line)
        elif event.tag is None and event.implicit[0]:
            value = _plain(value)
        self._remember(event.anchor, value, 1)
        self._put(value, line)

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self._anchors:
            raise BrokenFileError(f"has an alias *{anchor} without a finished anchor", line)
        value, nodes = self._anchors[anchor]
        self.reading.count(line, len(self._open), nodes)
        self._put(value, line)

    def _begin(self, event: yaml.CollectionStartEvent, line: int) -> None:
        before = self.reading.nodes
        self.reading.count(line, len(self._open) + 1)
        if event.tag is not None:
            self.reading.wrong(self._place(), "has a tag", "take it out", line)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        place = self._place()
        self._put(value, line)
        self._open.append(_Open(value, place, event.anchor, before))

    def _put(self, value: Any, line: int) -> None:
        if not self._open:
            self.reading.value = value
            return
        within = self._open[-1]
        if isinstance(within.value, list):
            self.reading.lines[*within.path, len(within.value)] = line
            within.value.append(value)
        elif within.key is None:
            raise BrokenFileError("has a key that is not text", line, "write the key as text")
        else:
            path = (*within.path, within.key)
            self.reading.set_once(within.value, path, value, within.key_line)
            within.key = None

    def _place(self) -> Path:
        """Where the next value goes."""
        if not self._open:
            return ()
        within = self._open[-1]
        last = len(within.value) if isinstance(within.value, list) else within.key
        return within.path if last is None else (*within.path, last)

    def _remember(self, anchor: str | None, value: Any, nodes: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, nodes)


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    return json.loads(text) if _NUMBER.fullmatch(text) else text


def _first_control(text: str) -> int:
    for line, words in enumerate(text.split("\n"), 1):
        if any(not c.isprintable() and c not in "\t\r" for c in words):
            return line
    return 1
