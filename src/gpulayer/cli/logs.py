"""`gpulayer logs JOB`: what a job wrote, each stream to its own."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator

import click

from gpulayer.cli import render
from gpulayer.cli.outcome import exit_code as code_of
from gpulayer.cli.screen import Screen
from gpulayer.cli.session import connect, options
from gpulayer.cli.wait import until_finished
from gpulayer.clock import SystemClock
from gpulayer.contracts.durations import parse_duration
from gpulayer.errors import UsageError
from gpulayer.runtime.segments import BOTH, NOTE, PREPARE, STDERR, STDOUT, Record
from gpulayer.sdk import log_lines

STREAMS = {"stdout": {STDOUT, BOTH}, "stderr": {STDERR}, "prepare": {PREPARE, NOTE}}


@click.command("logs")
@click.argument("job", default="last")
@options("follow", "tail", "since", "stream", "grep", "index", "exit_code")
def command(
    job: str,
    follow: bool,
    tail: int | None,
    since: str | None,
    stream: str | None,
    grep: str | None,
    index: int | None,
    exit_code: bool,
) -> int:
    """Print what a job wrote: its stdout to stdout, its stderr to stderr, byte for byte.

    With -f it goes on until the job ends; Ctrl-C leaves the job alone.
    """
    wire = connect()
    query = {} if index is None else {"index": index}
    found = log_lines.records(wire, job, follow=follow, query=query)
    try:
        show(chosen(found, stream, since), tail, grep)
        if exit_code:
            return code_of(until_finished(wire, job))
    except KeyboardInterrupt:
        render.say(f"{job} goes on; end it: gpulayer cancel {job}")
        return 130
    return 0


def chosen(records: Iterable[Record], stream: str | None, since: str | None) -> Iterator[Record]:
    """The records of one stream, or of the last while."""
    if stream is not None and stream not in STREAMS:
        raise UsageError("usage", f"--stream: there is no '{stream}'", hint="--stream stdout")
    wanted = STREAMS[stream] if stream else {NOTE, STDOUT, STDERR, BOTH, PREPARE}
    oldest = SystemClock().now() - parse_duration(since, "--since") if since else 0.0
    return (r for r in records if r.stream in wanted and r.time >= oldest)


def show(records: Iterable[Record], tail: int | None, grep: str | None) -> None:
    """Write records to stdout and stderr: as they are, or the lines that are asked for."""
    if tail is None and grep is None:
        out, err = Screen(sys.stdout), Screen(sys.stderr)
        for record in records:
            (err if record.stream in (STDERR, NOTE) else out).write(record.data)
        return
    try:
        pattern = re.compile(grep or "")
    except re.error as error:
        raise UsageError("usage", f"--grep is no pattern: {error}") from None
    lines = (line for line in log_lines.lines(iter(records)) if pattern.search(line))
    screen = Screen(sys.stdout)
    for line in lines if tail is None else deque(lines, maxlen=tail):
        screen.write(line.encode() + b"\n")
