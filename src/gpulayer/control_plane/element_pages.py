"""Pages of the elements of an array: by index, or in the order in which they ended. A page holds as
much as one answer should, so that who reads a whole array asks seldom and never for too much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpulayer.contracts import elements, runs
from gpulayer.contracts.elements import CHUNK
from gpulayer.contracts.records import Job, Output, Result
from gpulayer.contracts.states import TERMINAL_JOB_STATES
from gpulayer.control_plane.array_views import array_json
from gpulayer.control_plane.ports import Reader
from gpulayer.control_plane.views import result_json

PAGE = 1_000
"""Most elements of one answer."""
PAGE_BYTES = 4 << 20
"""Values of one answer: it is full once it has that many, with the element that was then read."""
_READ = 100
"""Results that are read at once."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which elements, from where on."""

    state: str | None = None
    after: int = -1
    """The index, or in the order of ends the number of the end, behind which they are."""
    limit: int = PAGE
    ended: bool = False
    """Up to the first that has not ended, which is neither told nor passed."""
    by_end: bool = False
    """Those that have ended, in the order in which they did; those that were never given out are
    not among them."""


def page(reader: Reader, job: Job, wanted: Wanted) -> dict[str, Any]:
    """Index and state of each, and how it did where it has ended; the counts of the array, and
    whether it has ended. `next` goes on from there; None: those were the last."""
    rows, after = (_by_end if wanted.by_end else _by_index)(reader, job, wanted)
    return {
        "elements": rows,
        "next": after,
        "ended": job.state in TERMINAL_JOB_STATES,
        "array": array_json(reader, job, with_failed=False),
    }


def most(wanted: Wanted) -> int:
    """Elements that a full page has."""
    return min(max(1, wanted.limit), PAGE)


def _by_index(reader: Reader, job: Job, wanted: Wanted) -> tuple[Rows, int | None]:
    grid = elements.grid_of(job.spec)
    rows: Rows = []
    after: int | None = None
    for position, word in _words(reader, job, max(0, (wanted.after - grid.first) // grid.step + 1)):
        if len(rows) == most(wanted) or (wanted.ended and word in ("waiting", "running")):
            after = max(wanted.after, grid.index(position - 1))
            break
        if wanted.state in (None, word):
            rows.append({"index": grid.index(position), "state": word})
    room = PAGE_BYTES
    for at, result in _results_of(reader, job, rows):
        if room < 0:
            return rows[:at], rows[at - 1]["index"]
        rows[at] |= _told(reader, job, result)
        room -= len(result.value or "")
    return rows, after


def _by_end(reader: Reader, job: Job, wanted: Wanted) -> tuple[Rows, int | None]:
    rows: Rows = []
    after, room = max(0, wanted.after), PAGE_BYTES
    before = reader.last_end()
    while True:
        asked = min(_READ, most(wanted) - len(rows))
        found = reader.results_by_end(job.id, after, asked)
        for after, result in found:
            if wanted.state in (None, result.state):
                own = _told(reader, job, result)
                rows.append({"index": result.index, "state": result.state, **own})
            room -= len(result.value or "")
            if room < 0 or len(rows) == most(wanted):
                return rows, after
        if len(found) < asked:
            return rows, None if job.state in TERMINAL_JOB_STATES else max(after, before)


def _words(reader: Reader, job: Job, position: int) -> Iterator[tuple[int, str]]:
    """Position and state of each that is of this job, from that position on."""
    grid, progress = elements.grid_of(job.spec), reader.progress(job.id)
    is_closed = progress is not None and not progress.waiting
    while position < grid.size:
        number = position // CHUNK
        chunk = reader.chunk(job.id, number)
        end = min(grid.size, (number + 1) * CHUNK)
        for at in range(position, end):
            letter = elements.FRESH if chunk is None else chunk.states[at % CHUNK]
            if letter != elements.LEFT_OUT:
                word = elements.WORDS[letter]
                yield at, "cancelled" if word == "waiting" and is_closed else word
        position = end


def _results_of(reader: Reader, job: Job, rows: Rows) -> Iterator[tuple[int, Result]]:
    """Of the rows that have ended, each with its place."""
    places = {row["index"]: at for at, row in enumerate(rows)}
    seen = rows[0]["index"] - 1 if rows else 0
    asked = min(_READ, len(rows))
    while rows:
        results = reader.results_after(job.id, seen, asked)
        for result in results:
            if (at := places.get(result.index)) is not None:
                yield at, result
        if len(results) < asked or results[-1].index >= rows[-1]["index"]:
            return
        seen = results[-1].index


def _told(reader: Reader, job: Job, result: Result) -> dict[str, Any]:
    told: dict[str, Any] = {"attempt": result.attempt, "result": result_json(result)}
    if result.value is not None and '"file":' in result.value:
        files = reader.outputs_of(job.id, result.index)
        told["files"] = {o.path: o.digest for o in files if _is_of_value(o)}
    return told


def _is_of_value(output: Output) -> bool:
    return output.path.startswith(f"{runs.VALUES}/")
