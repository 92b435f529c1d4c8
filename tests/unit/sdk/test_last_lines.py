"""The last lines of a log are read from its end, and are those that reading it whole would give."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from gpulayer.runtime import segments
from gpulayer.runtime.segments import STDERR, STDOUT, Record
from gpulayer.sdk import log_lines

PIECE = 1 << 20


class Plane:
    """Answers for one log as a plane does; `later` is what it says to who follows."""

    def __init__(self, log: bytes, later: bytes = b"") -> None:
        self.log = log
        self.later = later
        self.read = 0

    def request(self, method: str, path: str, *, park: float = 0.0) -> Any:
        offset = int("".join(re.findall(r"offset=(\d+)", path)) or 0)
        if park and offset >= len(self.log):
            self.log, self.later = self.log + self.later, b""
        data = self.log[offset : offset + PIECE]
        self.read += len(data)
        headers = {"x-gpulayer-next": str(offset + len(data)), "x-gpulayer-eof": str(int(not data))}
        return SimpleNamespace(
            data=data, headers={**headers, "x-gpulayer-size": str(len(self.log))}
        )


def logged(count: int, seed: int = 1) -> bytes:
    """Lines of two streams, cut anywhere into records, with bytes that look like a record's."""
    dice = random.Random(seed)
    log = bytearray()
    for number in range(count):
        stream = dice.choice((STDOUT, STDERR))
        text = b"line %d \xa7\x01 %s\n" % (number, b"x" * dice.randrange(60))
        cut = dice.randrange(len(text))
        for part in (text[:cut], text[cut:]):
            log += segments.encode(stream, 0, 0, float(number), part)
    return bytes(log)


def of_stdout(records: Iterator[Record]) -> Iterator[str]:
    return log_lines.lines(record for record in records if record.stream == STDOUT)


@pytest.mark.parametrize("count", [0, 1, 7, 900, 5_000, 100_000])
@pytest.mark.parametrize("render", [log_lines.lines, of_stdout])
def test_they_are_the_same_as_of_the_whole(count: int, render: Any) -> None:
    log = logged(6_000)
    expected = list(deque(render(iter(segments.decode(log))), maxlen=count))
    assert list(log_lines.last(Plane(log), "job", count, render)) == expected


def test_a_long_log_is_not_read_for_a_few_lines() -> None:
    plane = Plane(logged(50_000))
    assert len(list(log_lines.last(plane, "job", 10, log_lines.lines))) == 10
    assert plane.read <= 2 * log_lines.LAST_BYTES
    assert len(plane.log) > 50 * log_lines.LAST_BYTES


def test_who_follows_sees_the_last_lines_and_then_what_comes() -> None:
    begun = segments.encode(STDOUT, 0, 0, 0.0, b"half ")
    plane = Plane(logged(6_000) + begun, segments.encode(STDOUT, 0, 0, 0.0, b"a line\nnew\n"))
    found = list(log_lines.last(plane, "job", 2, of_stdout, follow=True))
    assert found[0].startswith("line ")
    assert found[1:] == ["half a line", "new"]


@pytest.mark.parametrize("log", [b"", segments.encode(STDOUT, 0, 0, 0.0, b"no end")])
def test_a_short_log_is_read_whole(log: bytes) -> None:
    found = list(log_lines.last(Plane(log), "job", 5, log_lines.lines))
    assert found == (["no end"] if log else [])
