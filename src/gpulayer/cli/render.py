"""Everything that people see: errors, tables, times. Data goes to stdout, talk to stderr.

Colour is used on a terminal alone, and never with NO_COLOR or TERM=dumb. Text that came from a
job, a file or a worker is shown through `plain`, so that it cannot command the terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from gpulayer.errors import GPULayerError, SpecError

SCHEMA = 1
"""Version of every `--json` document."""

_RED, _BOLD, _DIM, _GREEN, _RESET = "\x1b[31m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[0m"
_NARROWEST = 8
_STATE_COLOUR = {"failed": _RED, "timed_out": _RED, "succeeded": _GREEN, "running": _BOLD}


def error(fault: GPULayerError) -> None:
    """`error[slug]: what`, then where, why and what mends it, one line each, on stderr."""
    head = paint(f"error[{fault.code}]:", _RED, sys.stderr)
    say(f"{head} {plain(fault.message)}")
    if isinstance(fault, SpecError) and len(fault.problems) > 1:
        for problem in fault.problems:
            say(f"  {plain(problem.sentence())}")
    for label, text in (("where", fault.where), ("why", fault.why)):
        for line in text.splitlines():
            say(f"  {label}: {plain(line)}")
    for text in fault.help:
        say(f"  help: {plain(text)}")


def prepare_streams() -> None:
    """Make every stream one that can be written: a closed one leads nowhere, and a character that
    the terminal's encoding lacks is shown escaped."""
    for fd, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            from gpulayer.sdk.streams import fill_closed

            fill_closed()
            stream = open(fd, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
        stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """One line of talk, after the data before it, also where both go into one file. A closed
    stderr is not a reason to fail; a closed stdout is told when it is flushed at the end."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def data(text: str) -> None:
    """One line of data."""
    sys.stdout.write(text + "\n")


def json_document(body: Mapping[str, Any]) -> None:
    """One JSON document, with the version of its schema."""
    data(json.dumps({"schema": SCHEMA, **body}, indent=2, ensure_ascii=True))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, wrap: bool = False) -> None:
    """Columns as wide as their content. On a terminal the widest are cut until a line fits, or,
    with `wrap`, the last one goes on below itself, word by word. A pipe gets everything."""
    shown = [[plain(cell) for cell in row] for row in [headers, *rows]]
    widths = [max(len(row[i]) for row in shown) for i in range(len(headers))]
    if sys.stdout.isatty():
        widths = fitted(widths, columns(), wrap=wrap)
    for number, row in enumerate(shown):
        line = "  ".join(
            cut(cell, width).ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)
        )
        first, *more = wrapped(row[-1], widths[-1]) if wrap else [cut(row[-1], widths[-1])]
        whole = f"{line}  {first}".rstrip() if line else first
        data(paint(whole, _DIM, sys.stdout) if number == 0 else _coloured(whole, row))
        for piece in more:
            data(" " * (sum(widths[:-1]) + 2 * len(widths[:-1])) + piece)


def fitted(widths: Sequence[int], room: int, *, wrap: bool = False) -> list[int]:
    """Widths that fit into `room` with two spaces between; the widest give first. With `wrap`
    only the last gives, down to 20."""
    found = list(widths)
    over = sum(found) + 2 * (len(found) - 1) - room
    if wrap:
        found[-1] = max(found[-1] - max(over, 0), min(found[-1], 20))
        return found
    while over > 0 and max(found) > _NARROWEST:
        found[found.index(max(found))] -= 1
        over -= 1
    return found


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width`, broken between words; a longer word is kept whole."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


def paragraph(text: str) -> None:
    """A sentence of data, broken between words on a terminal."""
    for line in wrapped(plain(text), columns()) if sys.stdout.isatty() else [plain(text)]:
        data(line)


def columns() -> int:
    from shutil import get_terminal_size  # loads three compressors

    return get_terminal_size((80, 24)).columns


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def plain(text: object) -> str:
    """Text without anything that a terminal would obey; such characters are shown escaped."""
    return "".join(
        c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in str(text)
    )


def size(count: float | None) -> str:
    """Bytes as `bytes_text` says them; `-` for none."""
    from gpulayer.contracts.durations import bytes_text  # not on the way of `--help`

    return "-" if count is None else bytes_text(count)


def moment(at: float | None) -> str:
    """Local time of day; with the date when it is not today."""
    if at is None:
        return "-"
    then = time.localtime(at)
    today = time.localtime()[:3] == then[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)


def silence(job: Mapping[str, Any]) -> str:
    """`lab-1 is silent since 12:03:11, the job may run on`; nothing for a job that is heard."""
    since = job.get("disconnected_since")
    if since is None:
        return ""
    return f"{job.get('worker') or 'its worker'} is silent since {moment(since)}; it may run on"


def paint(text: str, colour: str, stream: TextIO) -> str:
    return f"{colour}{text}{_RESET}" if colours(stream) else text


def colours(stream: TextIO) -> bool:
    """Whether this stream may be coloured. NO_COLOR: no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(line: str, row: Sequence[str]) -> str:
    for cell in row:
        if cell in _STATE_COLOUR:
            return line.replace(cell, paint(cell, _STATE_COLOUR[cell], sys.stdout), 1)
    return line
