"""`gpulayer logs JOB`: what a job wrote, each stream to its own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import click

from gpulayer.api.paths import job_path
from gpulayer.cli import render
from gpulayer.cli.outcome import exit_code as code_of
from gpulayer.cli.screen import Screen
from gpulayer.cli.session import connect, options
from gpulayer.cli.wait import leave, until_finished
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import parse_duration
from gpulayer.errors import UsageError
from gpulayer.runtime.rank_lines import RankLines, element_label, label
from gpulayer.runtime.segments import BOTH, LAUNCHER, NOTE, PREPARE, STDERR, STDOUT, Record
from gpulayer.sdk import log_lines

STREAMS = {"stdout": {STDOUT, BOTH}, "stderr": {STDERR}, "prepare": {PREPARE, NOTE}}
Whose = Callable[[int, int], bytes]
"""(element, rank) -> what stands before its lines; nothing: they are no one's."""
T = TypeVar("T")
_NAMES = {STDOUT: "stdout", BOTH: "stdout", STDERR: "stderr", PREPARE: "prepare", NOTE: "note"}


@click.command("logs")
@click.argument("job", default="last")
@options(
    "follow", "tail", "since", "stream", "grep", "rank", "index", "exit_code", "json", "quiet",
)  # fmt: skip
def command(
    job: str,
    follow: bool,
    tail: int | None,
    since: str | None,
    stream: str | None,
    grep: str | None,
    rank: int | None,
    index: int | None,
    exit_code: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Print what a job wrote: its stdout to stdout, its stderr to stderr, byte for byte.

    With -f it goes on until the job ends; Ctrl-C leaves the job alone. --json prints one object
    per line; -q leaves out GPUlayer's own notes.
    """
    wanted = _streams(stream, quiet)
    oldest = SystemClock().now() - parse_duration(since, "--since") if since else 0.0
    pattern = _pattern(grep)
    if tail is not None and tail < 0:
        raise UsageError("usage", "--tail counts lines: 0 or more", hint="--tail 10")
    wire = connect()
    found = wire.call("GET", job_path(job))
    is_array = bool(found.get("array"))
    query = {"index": index} if is_array and index is not None else {}

    def chosen(records: Iterable[Record]) -> Iterator[Record]:
        return (
            record
            for record in records
            if record.stream in wanted
            and record.time >= oldest
            and index in (None, record.index)
            and rank in (None, record.rank)
        )

    def read(render: Callable[[Iterator[Record]], Iterator[T]]) -> Iterator[T]:
        if tail is None:
            return render(chosen(log_lines.records(wire, found["id"], follow=follow, query=query)))

        def of_chosen(records: Iterable[Record]) -> Iterator[T]:
            return render(chosen(records))

        return log_lines.last(wire, found["id"], tail, of_chosen, follow=follow, query=query)

    whose: Whose | None = None
    if rank is None and found["ranks"] > 1:
        whose = _rank
    elif is_array and index is None:
        whose = _element
    try:
        if as_json:
            _as_json(read(lambda records: _matching(_timed(records), pattern)))
        elif tail is None and pattern is None:
            records = chosen(log_lines.records(wire, found["id"], follow=follow, query=query))
            _as_it_is(records, whose)
        else:
            _as_lines(read(lambda records: _lines(records, pattern)), whose)
        if exit_code:
            return code_of(until_finished(wire, found))
    except KeyboardInterrupt:
        leave(found["id"])
    return 0


def _rank(index: int, rank: int) -> bytes:
    return label(rank) if rank != LAUNCHER else b""


def _element(index: int, rank: int) -> bytes:
    return element_label(index)


def _as_it_is(records: Iterable[Record], whose: Whose | None) -> None:
    """Byte for byte; lines of several ranks or elements whole, and with their number where a person
    reads."""
    out, err = Screen(sys.stdout), Screen(sys.stderr)
    open_lines: dict[tuple[bool, int, int], RankLines] = {}
    for record in records:
        is_err = record.stream in (STDERR, NOTE)
        data = record.data
        if whose is not None and (mark := whose(record.index, record.rank)):
            shows = (sys.stderr if is_err else sys.stdout).isatty()
            key = (is_err, record.index, record.rank)
            lines = open_lines.setdefault(key, RankLines(mark if shows else b""))
            data = lines.feed(data)
            if not lines.is_open:
                del open_lines[key]
        (err if is_err else out).write(data)
    for (is_err, _, _), lines in open_lines.items():
        (err if is_err else out).write(lines.rest())


def _as_lines(lines: Iterable[tuple[tuple[int, int], str]], whose: Whose | None) -> None:
    screen = Screen(sys.stdout)
    shows = whose is not None and sys.stdout.isatty()
    for (index, rank), line in lines:
        mark = whose(index, rank) if whose is not None and shows else b""
        screen.write(mark + line.encode(errors="replace") + b"\n")


def _lines(
    records: Iterator[Record], pattern: re.Pattern[str] | None
) -> Iterator[tuple[tuple[int, int], str]]:
    lines = log_lines.ranked_lines(records)
    return ((who, line) for who, line in lines if pattern is None or pattern.search(line))


def _matching(
    lines: Iterator[dict[str, object]], pattern: re.Pattern[str] | None
) -> Iterator[dict[str, object]]:
    return (line for line in lines if pattern is None or pattern.search(str(line["text"])))


def _as_json(lines: Iterable[dict[str, object]]) -> None:
    for line in lines:
        render.data(json.dumps({"schema": render.SCHEMA, **line}, ensure_ascii=True))
        sys.stdout.flush()


def _timed(records: Iterable[Record]) -> Iterator[dict[str, object]]:
    """Lines with the stream that they were written to and the time of their first piece."""
    begun: dict[tuple[int, int, int], tuple[float, bytes]] = {}
    for record in records:
        key = (record.stream, record.index, record.rank)
        at, rest = begun.pop(key, (record.time, b""))
        *whole, rest = (rest + record.data).split(b"\n")
        for line in whole:
            yield _line(key, at, line)
            at = record.time
        if rest:
            begun[key] = (at, rest)
    for key, (at, rest) in begun.items():
        yield _line(key, at, rest)


def _line(key: tuple[int, int, int], at: float, data: bytes) -> dict[str, object]:
    stream, index, rank = key
    text = data.removesuffix(b"\r").decode(errors="replace")
    whose = {"rank": None if rank == LAUNCHER else rank}
    return {"time": at, "stream": _NAMES[stream], "index": index, **whose, "text": text}


def _streams(stream: str | None, quiet: bool) -> set[int]:
    if stream is not None and stream not in STREAMS:
        raise UsageError(
            "usage",
            f"--stream: there is no '{stream}'",
            why=f"streams are {', '.join(STREAMS)}",
            hint="--stream stdout",
        )
    found = STREAMS[stream] if stream else {NOTE, STDOUT, STDERR, BOTH, PREPARE}
    return found - {NOTE} if quiet else found


def _pattern(grep: str | None) -> re.Pattern[str] | None:
    if grep is None:
        return None
    try:
        return re.compile(grep)
    except re.error as error:
        mend = f"--grep {json.dumps(re.escape(grep))}"
        raise UsageError("usage", f"--grep is no pattern: {error}", hint=mend) from None
