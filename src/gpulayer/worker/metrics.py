"""Reads what running tasks report, and sends it on: one thread for all of them, once a second.

A task has a file, into which it appends a line for each report. A part of it is sent with the bytes
where it begins and ends, and the plane takes each part once; what an earlier agent had sent, the
plane knows. The file is the job's: nothing else is read in its place, and what is in it is bounded.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpulayer.clock import Clock
from gpulayer.contracts.limits import METRIC_NAME
from gpulayer.contracts.messages import KeepMetrics
from gpulayer.errors import GPULayerError, StorageError
from gpulayer.worker import reported
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.slot import Slot
from gpulayer.worker.steps.hiding import Clean
from gpulayer.worker.supervisor_link import SupervisorGone

LOOK_SECONDS = 1.0
PART_BYTES = 1 << 20
PARTS = 8
"""Of one task at one look."""
BEHIND_BYTES = 64 << 20
"""What is further behind than this is left out."""
REPLACED = "its file of metrics is no longer the one that it began: no more of it is read"


class ReplacedError(Exception):
    """It is no file of the task's any more."""


@dataclass(slots=True)
class _File:
    """The file of one task, and what the plane has of it."""

    read_to: int = 0
    identity: tuple[int, int] | None = None
    is_over: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class Metrics:
    """Safe to share between threads. `left`: the worker is stopping."""

    def __init__(
        self,
        channel: WorkerChannel,
        clock: Clock,
        left: threading.Event,
        running: Callable[[], Iterable[Slot]],
        path_of: Callable[[str], str],
        clean: Callable[[str], Clean],
        on_error: Callable[[BaseException], None],
        every: float = LOOK_SECONDS,
    ) -> None:
        """`running`: the tasks of this moment. `path_of` a task its file. `clean` takes a task's
        secrets out of texts."""
        self._channel = channel
        self._clock = clock
        self._left = left
        self._running = running
        self._path_of = path_of
        self._clean = clean
        self._on_error = on_error
        self._every = every
        self._files: dict[str, _File] = {}
        self._awake = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def wake(self) -> None:
        """A task runs, or the worker is stopping."""
        if self._awake.is_set():
            return
        self._awake.set()
        with self._lock:
            if self._thread is None and not self._left.is_set():
                self._thread = threading.Thread(
                    target=self._watch, name="gpulayer-metrics", daemon=True
                )
                self._thread.start()

    def finish(self, task_id: str, fence: int, indices: range, *, has_secrets: bool) -> None:
        """The task has ended: send the rest. Raises ConnectionError where there is no plane, and
        SupervisorGone where there is nobody to ask about its secrets; ask again."""
        if not os.path.lexists(self._path_of(task_id)):
            return
        file = self._file(task_id)
        with file.lock:
            try:
                while self._sent(task_id, fence, indices, file, has_secrets):
                    pass
            except (GPULayerError, OSError) as error:
                if isinstance(error, ConnectionError | SupervisorGone):
                    raise
                self._on_error(error)

    def _watch(self) -> None:
        while not self._left.is_set():
            self._awake.wait()
            self._awake.clear()
            while not self._left.wait(self._every):
                running = tuple(self._running())
                with self._lock:
                    for task_id in self._files.keys() - {slot.task_id for slot in running}:
                        del self._files[task_id]
                if not running:
                    break
                for slot in running:
                    self._look(slot)

    def _look(self, slot: Slot) -> None:
        path = self._path_of(slot.task_id)
        if not os.path.lexists(path):
            return
        file = self._file(slot.task_id)
        has_secrets = bool(slot.note.get("secrets"))
        with file.lock:
            try:
                for _ in range(PARTS):
                    if not self._sent(slot.task_id, slot.fence, slot.indices, file, has_secrets):
                        return
            except (ConnectionError, SupervisorGone):
                pass  # the next time
            except Exception as error:
                self._on_error(error)

    def _file(self, task_id: str) -> _File:
        with self._lock:
            return self._files.setdefault(task_id, _File())

    def _sent(
        self, task_id: str, fence: int, indices: range, file: _File, has_secrets: bool
    ) -> bool:
        """Send the next part. Whether there was one."""
        if file.is_over:
            return False
        is_last = False
        try:
            data, ends, is_behind = _next(self._path_of(task_id), file)
        except FileNotFoundError:
            return False
        except (ReplacedError, OSError):
            part, ends, is_last = reported.Part(note=REPLACED), file.read_to, True
        else:
            if ends == file.read_to:
                return False
            part = reported.read(data, indices, self._clock.now())
            if is_behind:
                part.note = reported.TOO_FAST
        series = reported.sent(part.series)
        if has_secrets:
            series = _shown(series, self._clean(task_id))
        message = KeepMetrics(fence, file.read_to, ends, series, part.note)
        try:
            answer = self._channel.keep_metrics(task_id, message)
        except StorageError:
            raise
        except GPULayerError:
            file.is_over = True  # the plane is too old, or will never take these
            raise
        file.is_over = is_last or answer.over
        file.read_to = answer.read_to
        return not file.is_over


def _shown(series: reported.Sent, clean: Clean) -> reported.Sent:
    """With names that hold no secret; none where nobody knows the secrets any more."""
    names = clean([one["name"] for one in series])
    if names is None:
        return ()
    return tuple(
        {**one, "name": name[:METRIC_NAME]} for one, name in zip(series, names, strict=True)
    )


def _next(path: str, file: _File) -> tuple[bytes, int, bool]:
    """Whole lines behind what is taken, where they end, and whether some before them are left
    out. Raises ReplacedError, and OSError where it cannot be read."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(path, flags)
    try:
        found = os.fstat(fd)
        identity = (found.st_dev, found.st_ino)
        is_same = file.identity in (None, identity) and found.st_size >= file.read_to
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or not is_same:
            raise ReplacedError
        file.identity = identity
        start, is_behind = file.read_to, found.st_size - file.read_to > BEHIND_BYTES
        if is_behind:
            start = found.st_size - PART_BYTES
        data = os.pread(fd, PART_BYTES, start)
    finally:
        os.close(fd)
    whole = data[: data.rfind(b"\n") + 1]
    if not whole and len(data) == PART_BYTES:
        return b"", start + len(data), True  # a line without an end
    if is_behind:
        ends = start + len(whole)
        return whole[whole.find(b"\n") + 1 :], ends, True
    return whole, start + len(whole), is_behind
