"""The log of an array: what its elements said, whole records in turn, in the order of their starts.

Its cursor holds where each element is that was begun to be read and is not read to its end, and up
to which fence all others were. So it is as long as the array is wide, and not as long as the array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpulayer.contracts.ids import JobId, TaskId
from gpulayer.contracts.records import Task
from gpulayer.control_plane.ports import Logs, Reader
from gpulayer.runtime import segments

_TASKS = 512
"""Tasks that are looked at together."""
_SHARE_BYTES = 64 << 10
"""Most that is read of one task at once, where it has no longer record."""


@dataclass(slots=True)
class Cursor:
    high: int = 0
    """All with a fence up to this one were read to their ends, but for these."""
    open: dict[int, int] = field(default_factory=dict)
    """Fence -> offset."""

    @classmethod
    def of(cls, numbers: list[int]) -> Cursor:
        pairs = numbers[1:]
        return cls(numbers[0], dict(zip(pairs[::2], pairs[1::2], strict=False)))

    def text(self) -> str:
        pairs = (f"{fence}.{offset}" for fence, offset in sorted(self.open.items()))
        return ".".join([str(self.high), *pairs])


@dataclass(slots=True)
class Part:
    pieces: list[bytes] = field(default_factory=list)
    marks: list[tuple[Cursor, int]] = field(default_factory=list)
    """Of each piece: the cursor before it, and the fence that it is of."""
    next: str = ""
    is_all: bool = False
    """There is nothing more now."""

    def cursor_at(self, piece: int, offset: int) -> str:
        """The cursor so many bytes into a piece."""
        before, fence = self.marks[piece]
        open_ = {**before.open, fence: before.open.get(fence, 0) + offset}
        return Cursor(max(before.high, fence), open_).text()


def read(
    reader: Reader,
    logs: Logs,
    job_id: JobId,
    numbers: list[int],
    limit: int,
    is_written: Callable[[Task], bool],
) -> Part:
    """From a cursor on. `is_written`: more of a task's log may come."""
    cursor, part, size = Cursor.of(numbers), Part(), 0
    for task in _tasks(reader, job_id, cursor):
        if size >= limit:
            break
        offset, may_grow = cursor.open.get(task.fence, 0), is_written(task)
        data, is_end = _records(logs, task, offset)
        if data:
            part.pieces.append(data)
            part.marks.append((Cursor(cursor.high, dict(cursor.open)), task.fence))
            size += len(data)
        cursor.high = max(cursor.high, task.fence)
        cursor.open[task.fence] = offset + len(data)
        if is_end and not may_grow:
            del cursor.open[task.fence]
    else:
        part.is_all = not cursor.open
    part.next = cursor.text()
    return part


def _tasks(reader: Reader, job_id: JobId, cursor: Cursor) -> Iterator[Task]:
    """Those that are open, then those that were not looked at yet."""
    for fence in sorted(cursor.open):
        task = reader.task(TaskId(f"t{fence}"))
        if task is not None and task.job_id == job_id:
            yield task
        else:
            del cursor.open[fence]  # of a cursor that was never ours
    while True:
        found = reader.tasks_after(job_id, cursor.high, _TASKS)
        yield from found
        if len(found) < _TASKS:
            return


def _records(logs: Logs, task: Task, offset: int) -> tuple[bytes, bool]:
    """Whole records, and whether that is all there is now."""
    for most in (_SHARE_BYTES, segments.MAX_RECORD + segments.HEADER.size):
        data = logs.read(task.job_id, [task.id], offset, most)
        end = segments.whole(data)
        if end or len(data) < most:
            break
    return data[:end], len(data) < most
