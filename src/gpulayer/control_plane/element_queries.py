"""Looking at the elements of one array: a page of them, and what they said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpulayer.contracts.elements import CHUNK, grid_of
from gpulayer.contracts.records import Job, Task
from gpulayer.contracts.states import TERMINAL_JOB_STATES
from gpulayer.control_plane import array_log, element_pages
from gpulayer.control_plane.element_pages import Wanted
from gpulayer.control_plane.lifecycle.jobs import log_removal
from gpulayer.control_plane.log_parts import LogPart, offsets_of, removed
from gpulayer.control_plane.ports import Logs, Reader
from gpulayer.errors import NotFoundError, UsageError
from gpulayer.runtime import segments

_READ_BYTES = 4 << 20
"""Of the log of a run, at once. A record is smaller."""


class ElementQueries:
    """Thread-safe."""

    def __init__(self, logs: Logs, is_written: Callable[[Task], bool]) -> None:
        """`is_written`: whether more of a task's log may come."""
        self._logs = logs
        self._is_written = is_written

    def page(self, reader: Reader, job: Job, wanted: Wanted) -> dict[str, Any]:
        """See `element_pages.page`. Raises `usage` for a job that is no array."""
        _require_array(job)
        return element_pages.page(reader, job, wanted)

    def log(self, reader: Reader, job: Job, index: int | None, cursor: str, limit: int) -> LogPart:
        """Of one element, its attempts one after another; of all (None), whole records in turn."""
        if index is None:
            return self._whole(reader, job, cursor, limit)
        return self._one(reader, job, index, cursor, limit)

    def _whole(self, reader: Reader, job: Job, cursor: str, limit: int) -> LogPart:
        offsets = offsets_of(cursor)
        part = array_log.read(reader, self._logs, job.id, offsets, limit, self._is_written)
        is_over = job.state in TERMINAL_JOB_STATES and part.is_all
        if is_over and not part.pieces and (removal := log_removal(reader.events(job.id))):
            return removed(removal, [0] if offsets == [0] else [1], 0)
        return LogPart(tuple(part.pieces), part.next, is_over, None, part.cursor_at)

    def _one(self, reader: Reader, job: Job, index: int, cursor: str, limit: int) -> LogPart:
        grid = grid_of(job.spec)
        position = grid.position(index)
        if position is None:
            raise NotFoundError(
                "job-not-found",
                f"{job.id} has no element {index}",
                job_id=job.id,
                hint=f"gpulayer status {job.id}",
            )
        since = grid.index(position // CHUNK * CHUNK)
        tasks = reader.tasks_of_element(job.id, index, since)
        names, offset = [task.id for task in tasks], offsets_of(cursor)[0]
        is_over = job.state in TERMINAL_JOB_STATES or reader.result(job.id, index) is not None
        is_over = is_over and not any(map(self._is_written, tasks))
        if any(task.last is not None for task in tasks):
            own = b"".join(self._own(task, index) for task in tasks)
            data = own[offset : offset + limit]
            is_over = is_over and len(data) < limit
            return LogPart((data,), str(offset + len(data)), is_over, len(own))
        data = self._logs.read(job.id, names, offset, limit)
        size = sum(self._logs.size(job.id, name) for name in names)
        return LogPart((data,), str(offset + len(data)), is_over and len(data) < limit, size)

    def _own(self, task: Task, index: int) -> bytes:
        """What an element has said in its task: all of it, or its records among those of a run."""
        size = self._logs.size(task.job_id, task.id)
        pieces, left, at = list[bytes](), b"", 0
        while at < size and (data := self._logs.read(task.job_id, [task.id], at, _READ_BYTES)):
            at, left = at + len(data), left + data
            end = segments.whole(left)
            pieces.append(left[:end] if task.last is None else segments.only(left[:end], index))
            left = left[end:]
        return b"".join(pieces)


def _require_array(job: Job) -> None:
    if job.elements is None:
        raise UsageError(
            "usage",
            f"{job.id} is no array: it has no elements",
            hint=f"gpulayer status {job.id}",
            job_id=job.id,
        )
