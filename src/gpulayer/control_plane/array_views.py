"""What clients see of arrays and their elements, as the JSON of the API."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from gpulayer.contracts import elements
from gpulayer.contracts.elements import CHUNK
from gpulayer.contracts.records import Chunk, Job, Output
from gpulayer.control_plane.ports import Reader

FAILED_SHOWN = 20
"""Indices of failed elements that stand in a job's own JSON."""


def array_json(reader: Reader, job: Job, *, with_failed: bool) -> dict[str, Any] | None:
    """Counts, and the first failed ones. None: it is no array."""
    progress = reader.progress(job.id) if job.elements is not None else None
    if progress is None:
        return None
    # A task has one element that runs; those behind it in its run wait for their turn.
    running = min(progress.live, reader.live_count(job.id)) if progress.live else 0
    found: dict[str, Any] = {
        "elements": job.elements,
        "waiting": progress.waiting + progress.live - running,
        "running": running,
        "succeeded": progress.succeeded,
        "failed": progress.failed,
        "timed_out": progress.timed_out,
        "cancelled": progress.cancelled,
    }
    if with_failed and progress.failed + progress.timed_out:
        bad = _positions(reader.bad_chunks(job.id, FAILED_SHOWN), elements.BAD)
        grid = elements.grid_of(job.spec)
        found["failed_indices"] = [grid.index(at) for at in islice(bad, FAILED_SHOWN)]
    if with_failed:
        found["worlds"] = reader.worlds_of(job.id)
    return found


def place_outputs(job: Job, outputs: Iterable[Output]) -> list[tuple[str, Output]]:
    """Each with the path by which it is known: that of an element is below its index, so that none
    hides another."""
    return [(o.path if job.elements is None else f"{o.index}/{o.path}", o) for o in outputs]


def _positions(chunks: Iterable[Chunk], letters: str) -> Iterable[int]:
    for chunk in chunks:
        for at, letter in enumerate(chunk.states):
            if letter in letters:
                yield chunk.chunk * CHUNK + at
