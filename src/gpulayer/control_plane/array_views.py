"""What clients see of arrays and their elements, as the JSON of the API."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from gpulayer.contracts import elements
from gpulayer.contracts.elements import CHUNK
from gpulayer.contracts.records import Chunk, Job, Output
from gpulayer.control_plane.ports import Reader
from gpulayer.control_plane.views import result_json

FAILED_SHOWN = 20
"""Indices of failed elements that stand in a job's own JSON."""
PAGE = 1_000
"""Most elements of one answer."""


def array_json(reader: Reader, job: Job, *, with_failed: bool) -> dict[str, Any] | None:
    """Counts, and the first failed ones. None: it is no array."""
    progress = reader.progress(job.id) if job.elements is not None else None
    if progress is None:
        return None
    found: dict[str, Any] = {
        "elements": job.elements,
        "waiting": progress.waiting,
        "running": progress.live,
        "succeeded": progress.succeeded,
        "failed": progress.failed,
        "timed_out": progress.timed_out,
        "cancelled": progress.cancelled,
    }
    if with_failed and progress.failed + progress.timed_out:
        bad = _positions(reader.bad_chunks(job.id, FAILED_SHOWN), elements.BAD)
        grid = elements.grid_of(job.spec)
        found["failed_indices"] = [grid.index(at) for at in islice(bad, FAILED_SHOWN)]
    return found


def element_page(
    reader: Reader, job: Job, state: str | None, after: int, limit: int
) -> dict[str, Any]:
    """Elements in the order of their indices, those behind `after`: index and state, and how each
    that has ended did. `next` goes on from there; None: those were the last."""
    grid, most = elements.grid_of(job.spec), min(max(1, limit), PAGE)
    progress = reader.progress(job.id)
    is_closed = progress is not None and not progress.waiting
    rows: list[dict[str, Any]] = []
    position = max(0, (after - grid.first) // grid.step + 1)
    while position < grid.size and len(rows) < most:
        number = position // CHUNK
        chunk = reader.chunk(job.id, number)
        end = min(grid.size, (number + 1) * CHUNK)
        for at in range(position, end):
            letter = elements.FRESH if chunk is None else chunk.states[at % CHUNK]
            if letter == elements.LEFT_OUT:
                continue
            word = elements.WORDS[letter]
            if word == "waiting" and is_closed:
                word = "cancelled"
            if state in (None, word):
                rows.append({"index": grid.index(at), "state": word})
            if len(rows) == most:
                end = at + 1
                break
        position = end
    _add_results(reader, job, rows)
    is_end = position >= grid.size
    return {"elements": rows, "next": None if is_end else grid.index(position - 1)}


def place_outputs(job: Job, outputs: Iterable[Output]) -> list[tuple[str, Output]]:
    """Each with the path by which it is known: that of an element is below its index, so that none
    hides another."""
    return [(o.path if job.elements is None else f"{o.index}/{o.path}", o) for o in outputs]


def _add_results(reader: Reader, job: Job, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    by_index = {row["index"]: row for row in rows}
    seen = rows[0]["index"] - 1
    while True:
        results = reader.results_after(job.id, seen, PAGE)
        for result in results:
            if (row := by_index.get(result.index)) is not None:
                row |= {"attempt": result.attempt, "result": result_json(result)}
        if len(results) < PAGE or results[-1].index >= rows[-1]["index"]:
            return
        seen = results[-1].index


def _positions(chunks: Iterable[Chunk], letters: str) -> Iterable[int]:
    for chunk in chunks:
        for at, letter in enumerate(chunk.states):
            if letter in letters:
                yield chunk.chunk * CHUNK + at
