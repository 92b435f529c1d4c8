"""Looking at the elements of one array: a page of them, and what they said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpulayer.contracts.elements import grid_of
from gpulayer.contracts.records import Job, Task
from gpulayer.contracts.states import TERMINAL_JOB_STATES
from gpulayer.control_plane import array_log, element_pages
from gpulayer.control_plane.element_pages import Wanted
from gpulayer.control_plane.lifecycle.jobs import log_removal
from gpulayer.control_plane.log_parts import LogPart, offsets_of, removed
from gpulayer.control_plane.ports import Logs, Reader
from gpulayer.errors import NotFoundError, UsageError


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
        if grid_of(job.spec).position(index) is None:
            raise NotFoundError(
                "job-not-found",
                f"{job.id} has no element {index}",
                job_id=job.id,
                hint=f"gpulayer status {job.id}",
            )
        tasks = reader.tasks_of_element(job.id, index)
        names, offset = [task.id for task in tasks], offsets_of(cursor)[0]
        is_over = job.state in TERMINAL_JOB_STATES or reader.result(job.id, index) is not None
        is_over = is_over and not any(map(self._is_written, tasks))
        data = self._logs.read(job.id, names, offset, limit)
        size = sum(self._logs.size(job.id, name) for name in names)
        return LogPart((data,), str(offset + len(data)), is_over and len(data) < limit, size)


def _require_array(job: Job) -> None:
    if job.elements is None:
        raise UsageError(
            "usage",
            f"{job.id} is no array: it has no elements",
            hint=f"gpulayer status {job.id}",
            job_id=job.id,
        )
