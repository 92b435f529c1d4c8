"""Giving out the elements of an array, one by one or many in a row. Pure.

What was given back goes first; else the next that nobody ever had. A chunk of states is made when
the first of it is given out, so that an array costs nothing before that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpulayer.contracts import elements, runs
from gpulayer.contracts.changes import Changes
from gpulayer.contracts.decision import Decision
from gpulayer.contracts.elements import CHUNK, FRESH, LEFT_OUT, LIVE, RETURNED, Grid
from gpulayer.contracts.ids import Fence, JobId, WorkerId
from gpulayer.contracts.records import Chunk, Job, Progress
from gpulayer.contracts.states import JobState
from gpulayer.control_plane.lifecycle import jobs as rules

RUN_SECONDS, LEAST_SECONDS = 0.5, 0.1
"""Work of one run of elements, and what is not worth a run of its own."""


@dataclass(frozen=True, slots=True)
class Place:
    """The next element to be given out."""

    position: int
    chunk: Chunk
    attempts: int = 0
    """That were used up."""
    count: int = 1
    """Of it and those behind it, which are alike."""

    @property
    def was_returned(self) -> bool:
        return self.chunk.states[self.position % CHUNK] == RETURNED


def begun(job: Job) -> Progress:
    """Of an array that is accepted."""
    array = job.spec["array"]
    count = job.elements or 0
    limits = (array.get("max_parallel"), array.get("max_failures"))
    return Progress(job.id, count, max_parallel=limits[0], max_failures=limits[1])


def again(old: Sequence[Chunk], grid: Grid, job_id: JobId) -> tuple[int, tuple[Chunk, ...]]:
    """What did not succeed of an ended array, as the chunks of a new one, and how many that is; of
    one that did, all of it."""
    there = {chunk.chunk: chunk.states for chunk in old}
    numbers = range(-(-grid.size // CHUNK))
    states = [there.get(number) or fresh(job_id, grid, number).states for number in numbers]
    kept = LEFT_OUT + elements.SUCCEEDED
    if all(letter in kept for text in states for letter in set(text)):
        kept = LEFT_OUT
    texts = ["".join(LEFT_OUT if one in kept else FRESH for one in text) for text in states]
    chunks = tuple(Chunk(job_id, number, text) for number, text in enumerate(texts))
    return sum(text.count(FRESH) for text in texts), chunks


def ready(progress: Progress, tasks: int, most: int) -> int:
    """How many tasks may be given out at once, as far as no element waits for a time. `tasks`:
    those of the array that live. Each runs one element at a time, so they are what `max_parallel`
    is about."""
    room = most
    if progress.max_parallel is not None:
        room = min(room, progress.max_parallel - tasks)
    return max(0, min(room, progress.waiting))


def due(chunk: Chunk, now: float) -> list[int]:
    """Of those that came back, the positions in the chunk that may be given out again."""
    return [
        int(at)
        for at, (_, _, not_before) in chunk.again.items()
        if chunk.states[int(at)] == RETURNED and not_before <= now
    ]


def next_place(
    job: Job,
    progress: Progress,
    returned: Chunk | None,
    chunk_of: Callable[[int], Chunk | None],
    now: float,
    most: int = 1,
) -> Place | None:
    """What came back goes first. `returned`: a chunk with some of that. `most`: how many may be
    given out together. None: nothing is due."""
    if returned is not None and (found := due(returned, now)):
        at = min(found)
        used, lost, _ = returned.again[str(at)]
        count = 1 if lost else _alike(returned, set(found), at, min(most, progress.returned))
        return Place(returned.chunk * CHUNK + at, returned, used, count)
    if progress.waiting <= progress.returned:
        return None
    grid, position = elements.grid_of(job.spec), progress.next
    while position < grid.size:
        number = position // CHUNK
        chunk = chunk_of(number) or fresh(job.id, grid, number)
        at = chunk.states.find(FRESH, position % CHUNK)
        if at >= 0:
            left = min(most, progress.waiting - progress.returned)
            row = chunk.states[at : at + left]
            return Place(number * CHUNK + at, chunk, 0, len(row) - len(row.lstrip(FRESH)))
        position = (number + 1) * CHUNK
    return None


def most_together(job: Job, progress: Progress, slots: int) -> int:
    """How many elements one task may run: about `RUN_SECONDS` of work, as far as is known. The last
    ones spread over all `slots` of the workers, or as many as may be used at one time, so that none
    of these waits behind a full run: see docs/adr/0130-runs.md."""
    in_place = job.envelope_id is not None and not job.spec["workload"].get("source")
    if progress.pace is None:
        return 1
    if progress.max_parallel is not None:
        slots = min(slots, progress.max_parallel)
    if not runs.may_run(job.spec, in_place=in_place):
        return 1
    pace = max(progress.pace, RUN_SECONDS / CHUNK)
    slots = max(1, slots)
    share, most = -(-progress.waiting // (2 * slots)), -(-progress.waiting // slots)
    least = min(int(LEAST_SECONDS / pace), most)  # no slot is left empty for it
    return max(1, min(int(RUN_SECONDS / pace), max(share, least)))


def fresh(job_id: JobId, grid: Grid, number: int) -> Chunk:
    return Chunk(job_id, number, FRESH * min(CHUNK, grid.size - number * CHUNK))


def placed(
    job: Job,
    progress: Progress,
    place: Place,
    decision: Decision,
    fences: Sequence[Fence],
    incarnations: Mapping[WorkerId, int],
    now: float,
) -> Changes:
    """An element, or a run of them, is given out."""
    grid, attempt, count = elements.grid_of(job.spec), place.attempts + 1, place.count
    last = grid.index(place.position + count - 1) if count > 1 else None
    index = grid.index(place.position)
    tasks = rules.tasks_of(job, decision, fences, incarnations, now, attempt, index, last)
    at, states, was_returned = place.position % CHUNK, place.chunk.states, place.was_returned
    changes = Changes(
        tasks=tasks,
        chunks=(with_letters(place.chunk, states[:at] + LIVE * count + states[at + count :]),),
        progress=(
            dataclasses.replace(
                progress,
                waiting=progress.waiting - count,
                live=progress.live + count,
                returned=progress.returned - count * was_returned,
                next=max(progress.next, place.position + count * (not was_returned)),
            ),
        ),
    )
    if job.state is not JobState.QUEUED:
        return changes
    move = rules.scheduled(job, tasks, decision, now)
    return changes + dataclasses.replace(move, tasks=())


def undelayed(chunk: Chunk, after: float) -> Chunk:
    """Without waiting times that a clock which was set back has made too long."""
    again = {at: (a, n, 0.0 if t > after else t) for at, (a, n, t) in chunk.again.items()}
    return _due(dataclasses.replace(chunk, again=again))


def with_letters(chunk: Chunk, states: str) -> Chunk:
    return _due(dataclasses.replace(chunk, states=states))


def _alike(chunk: Chunk, found: set[int], at: int, most: int) -> int:
    """How many in a row are due and like the first one: as often tried, and never lost. What was
    once lost with its worker goes alone."""
    first, count = chunk.again[str(at)][:2], 1
    while count < most and at + count in found and chunk.again[str(at + count)][:2] == first:
        count += 1
    return count


def _due(chunk: Chunk) -> Chunk:
    if not chunk.again and chunk.due is None:
        return chunk
    times = [t for at, (_, _, t) in chunk.again.items() if chunk.states[int(at)] == RETURNED]
    return dataclasses.replace(chunk, due=min(times, default=None))
