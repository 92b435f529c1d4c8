"""Keeps the checkpoint folders of running tasks: one thread for each, at its interval.

A folder is kept only as a whole, as it was at one moment: no new file is held open to write, then
and a pause later; in that pause nobody has written in any of them; and the job is alive after it,
for what a killed writer leaves behind is closed and still too. Best is a pause in which nothing at
all has moved in the folder. The plane takes it in one word, or not at all.

After the end there is one more, where the job ended by itself: then what it left is what it meant
to leave. Of one that was killed the last one counts that was taken while it lived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpulayer.artifacts import cut
from gpulayer.artifacts.cut import Look, Pins, RestlessError, Stamp
from gpulayer.clock import Clock
from gpulayer.contracts.messages import KeepCheckpoint
from gpulayer.contracts.states import TaskState
from gpulayer.errors import GPULayerError
from gpulayer.worker import open_files
from gpulayer.worker.channel import WorkerChannel

QUIET_SECONDS = 0.5
"""Between two looks that must see the same."""
HASTY_SECONDS = 2.0
"""How long quiet is waited for, where the files are replaced all the time."""
_QUIET_PART = 0.25
"""The same as a part of a short interval."""
_STORE_TRIES = 3

_NOTHING = Look({}, {}, ())

_Moment = tuple[float, float]
"""By the clock for people, and by the one that nobody sets."""

Lives = Callable[[str], bool]
"""Whether the task of that id runs now, as its supervisor and the system say. Blocks."""


@dataclass(slots=True)
class _Folder:
    """The checkpoint folder of one task, and what the plane has of it."""

    task_id: str
    fence: int
    path: str
    interval: float
    over: threading.Event = field(default_factory=threading.Event)
    turn: threading.Lock = field(default_factory=threading.Lock)
    kept: Look = _NOTHING
    digests: dict[Stamp, str] = field(default_factory=dict)
    logs: frozenset[str] = frozenset()
    """Files that are left out: they are open for writing all the time."""
    told: str = ""
    """The note that the plane had last."""


class Checkpoints:
    """Safe to share between threads. `left`: the worker is stopping."""

    def __init__(
        self,
        channel: WorkerChannel,
        clock: Clock,
        left: threading.Event,
        lives: Lives,
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._left = left
        self._lives = lives
        self._on_error = on_error
        self._folders: dict[str, _Folder] = {}
        self._lock = threading.Lock()

    def begin(
        self, task_id: str, fence: int, path: str, interval: float, *, at_once: bool = False
    ) -> None:
        """Keep that folder from now on, first after an interval or `at_once`. Twice-safe."""
        with self._lock:
            if task_id in self._folders:
                return
            folder = self._folders[task_id] = _Folder(task_id, fence, path, interval)
        threading.Thread(
            target=self._watch, args=(folder, at_once), name="gpulayer-checkpoint", daemon=True
        ).start()

    def finish(self, task_id: str, fence: int, path: str, ended: Mapping[str, Any]) -> None:
        """The task has ended so, as the supervisor says: keep what it left, where that is to be
        trusted. Raises ConnectionError where there is no plane; ask again."""
        with self._lock:
            folder = self._folders.get(task_id) or _Folder(task_id, fence, path, 0.0)
        folder.over.set()
        if not ended_by_itself(ended):
            return
        with folder.turn:
            try:
                folder.logs = frozenset()
                seen = cut.look(folder.path)
                if is_left_whole(seen, folder.kept, ended):
                    with cut.pin(folder.path, seen, folder.digests) as pins:
                        self._keep(folder, pins, (float(ended["ended_at"]), self._clock.boottime()))
            except ConnectionError:
                raise
            except RestlessError:
                return
            except (GPULayerError, OSError) as error:
                self._say(folder, str(error))

    def forget(self, task_id: str) -> None:
        with self._lock:
            folder = self._folders.pop(task_id, None)
        if folder is not None:
            folder.over.set()

    # --- while it runs ----------------------------------------------------------------------

    def _watch(self, folder: _Folder, at_once: bool) -> None:
        due = self._clock.monotonic() + (0.0 if at_once else folder.interval)
        while not self._is_over(folder, due - self._clock.monotonic()):
            due = max(due + folder.interval, self._clock.monotonic())
            try:
                self._keep_whole(folder, self._clock.monotonic() + folder.interval)
            except ConnectionError:
                pass  # there is no plane now; the next time
            except (GPULayerError, OSError) as error:
                self._say(folder, str(error))
            except Exception as error:
                self._on_error(error)

    def _keep_whole(self, folder: _Folder, until: float) -> None:
        """Wait for a moment at which the folder is whole, and keep it as it is then. A file that
        was never kept and is held open to write until `until` is a log, most likely, and left
        out."""
        pause = min(QUIET_SECONDS, folder.interval * _QUIET_PART)
        hasty_at = self._clock.monotonic() + min(HASTY_SECONDS, folder.interval / 2)
        if folder.logs:  # one that was closed is whole
            folder.logs &= self._written(folder, cut.look(folder.path))
        always: frozenset[str] | None = None
        wait = 0.0
        while not self._is_over(folder, wait):
            began = self._clock.monotonic()
            seen = cut.look(folder.path, folder.logs)
            at = (self._clock.now(), self._clock.boottime())
            # Between two replacements there is little time: that is tried often.
            grown = wait * 1.5 if began < hasty_at else self._clock.monotonic() - began
            wait = min(2.0, max(grown, pause / 4))
            if seen == folder.kept or seen.is_empty:
                return
            try:
                # Held before it is asked who writes: many processes may be asked, and where files
                # are replaced all the time what was seen has lost its name by then.
                with cut.pin(folder.path, seen, folder.digests, folder.logs) as pins:
                    busy = self._written(folder, seen)
                    if not busy and self._is_kept(folder, pins, at, pause, hasty_at):
                        return
            except RestlessError:
                busy = self._written(folder, seen)
            always = busy if always is None else always & busy
            if self._clock.monotonic() >= until:
                if logs := always - folder.kept.files.keys():
                    folder.logs |= logs
                else:
                    names = ", ".join(sorted(busy)[:3])
                    self._say(folder, f"open for writing: {names}" if busy else "it is never quiet")

    def _is_kept(
        self, folder: _Folder, pins: Pins, at: _Moment, pause: float, hasty_at: float
    ) -> bool:
        """Whether there is nothing more to do. Where its files are replaced all the time there is
        no quiet to be had: then it does that nobody writes in what it held at that moment. Raises
        RestlessError where they change while they are stored."""
        if self._is_over(folder, pause):
            return True
        if self._written(folder, pins.seen) or not pins.is_unchanged:
            return False
        is_hasty = self._clock.monotonic() >= hasty_at and pins.is_whole
        if not is_hasty and cut.look(folder.path, folder.logs) != pins.seen:
            return False
        if not self._lives(folder.task_id):
            return True
        with folder.turn:
            if not folder.over.is_set():
                self._keep(folder, pins, at)
        return True

    def _written(self, folder: _Folder, seen: Look) -> frozenset[str]:
        """Files that have changed, and that somebody holds open to write in them."""
        changed = {
            (stamp.device, stamp.inode): path
            for path, stamp in seen.files.items()
            if stamp not in folder.digests
        }
        return frozenset(changed[key] for key in open_files.written(changed.keys()))

    def _is_over(self, folder: _Folder, seconds: float) -> bool:
        return folder.over.wait(max(0.0, seconds)) or self._left.is_set()

    # --- in either case ---------------------------------------------------------------------

    def _keep(self, folder: _Folder, pins: Pins, at: _Moment) -> None:
        for _ in range(_STORE_TRIES):
            files, digests = pins.store(self._channel)
            note = pins.seen.note
            message = KeepCheckpoint(folder.fence, *at, tuple(files), self._news(folder, note))
            answer = self._channel.keep_checkpoint(folder.task_id, message)
            if answer.over:
                folder.over.set()
            if not answer.missing:
                folder.kept, folder.digests, folder.told = pins.seen, digests, note
                return
            pins.known = folder.digests = {}  # the plane has lost some: all is stored again
        raise OSError(0, "the server loses its files faster than they are stored")

    def _say(self, folder: _Folder, note: str) -> None:
        """Have the job's story tell why nothing newer is kept, once."""
        if not (note := self._news(folder, note)):
            return
        try:
            message = KeepCheckpoint(
                folder.fence, self._clock.now(), self._clock.boottime(), note=note
            )
            if self._channel.keep_checkpoint(folder.task_id, message).over:
                folder.over.set()
            folder.told = note
        except (OSError, GPULayerError) as error:
            self._on_error(error)

    def _news(self, folder: _Folder, note: str) -> str:
        return "" if note == folder.told else note


def ended_by_itself(ended: Mapping[str, Any]) -> bool:
    """Whether nothing of the task was killed: it failed, or took an order to end as it liked."""
    if ended["outcome"] not in (TaskState.FAILED, TaskState.CANCELLED, TaskState.TIMED_OUT):
        return False
    return ended.get("code") is not None and not ended.get("leftovers")


def is_left_whole(seen: Look, kept: Look, ended: Mapping[str, Any]) -> bool:
    """Whether what an end left can be a checkpoint. One that was asked for leaves what the job
    saved in its grace. In any other a part of the job may have died in the middle of a file, so
    each file that is new was left alone for a moment before, or was renamed when it was whole."""
    if seen == kept or seen.is_empty:
        return False
    if ended["outcome"] != TaskState.FAILED:
        return True
    if int(ended["code"]) >= 128:
        return False  # what its shell waited for was killed
    alone_since = (float(ended["ended_at"]) - QUIET_SECONDS) * 1e9
    known = set(kept.files.values())
    return all(
        stamp in known or stamp.is_renamed or stamp.mtime_ns <= alone_since
        for stamp in seen.files.values()
    )
