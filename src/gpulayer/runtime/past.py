"""A task of an earlier supervisor, found in the journal.

With an exit in its birth file it ended so. Else its keeper, if it had one, is ending it now: once
the lock of the birth file is free the rest is swept, by leaf and by marker, and the task is lost.
"""

from __future__ import annotations

import os

from gpulayer.runtime import exits, segments, sweep
from gpulayer.runtime.journal import LISTED, Birth
from gpulayer.runtime.tails import Tails

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import Any

    from gpulayer.runtime.loop import Loop
    from gpulayer.runtime.processes import Children

LOG, BIRTH = ".seg", ".keeper"
"""The two files of a task, behind its stem. No folder each: removing one costs milliseconds."""

RETRY_SECONDS = 0.02
"""A keeper whose supervisor died is gone within milliseconds, and there is nothing to wait on:
flock(2) has no event."""


class PastTask:
    """Looks like a `Task` to those who list, follow, cancel and forget."""

    refusal: dict[str, Any] | None = None

    def __init__(
        self,
        loop: Loop,
        intent: dict[str, Any],
        stem: str,
        clock: Callable[[], float],
        ended: Callable[[PastTask], object],
        children: Children,
    ) -> None:
        self._loop = loop
        self._children = children
        self._intent = intent
        self._outside: dict[str, Any] | None = intent.get("outside")
        self._stem = stem
        self._clock = clock
        self._ended = ended
        self.task_id: str = intent["task_id"]
        self.pid: int | None = None
        self.exit: dict[str, Any] | None = None
        self._birth = Birth(stem + BIRTH)
        self._segment = _Segment(stem + LOG)
        self.tails = Tails(self._segment)

    @staticmethod
    def ever_ran(stem: str) -> bool:
        return os.path.exists(stem + BIRTH)

    @property
    def is_running(self) -> bool:
        return self.exit is None

    def look(self) -> None:
        """Decides how it ended, now or as soon as its keeper lets go."""
        if not self._birth.lock():
            self._loop.after(RETRY_SECONDS, self.look)
            return
        outside, self._outside = self._outside, None
        if outside is not None:
            from gpulayer.runtime.outside import Ender  # few tasks have need of it

            marker = self._intent["marker"]
            Ender(self._loop, self._children, outside, marker, lambda _: self.look()).begin()
            return
        ending = self._birth.exit()
        if ending is None:
            sweep.end(self._intent)
            ending = exits.lost(None, self._clock(), "the supervisor died while the job ran")
            self._birth.record(ending)
        self._segment.size = segments.repair(self._segment.fd)
        self.exit = self.tails.exit = ending
        self.tails.look()
        self._ended(self)

    def cancel(self, mode: str, grace_seconds: float, reason: str | None = None) -> None:
        """It is being ended already."""

    def detach(self) -> None:
        """Nobody watches it but by `tail`."""

    def describe(self) -> dict[str, Any]:
        return {
            **{key: self._intent.get(key) for key in LISTED},
            "state": "running" if self.is_running else "exited",
            "pid": None,
            "exit": self.exit,
            "log_size": self._segment.size,
        }

    def forget(self) -> None:
        """Removes its files."""
        self._birth.close()
        self._segment.close()
        remove_files(self._stem)


class _Segment:
    """Shown as empty until its keeper has let go: a record half written is none."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size = 0

    def close(self) -> None:
        os.close(self.fd)


def remove_strange(folder: str, known: Container[str]) -> None:
    """Files of tasks that no journal knows, so that nobody will ever ask for them."""
    for name in os.listdir(folder):
        task_id, ending = os.path.splitext(name)
        if ending in (LOG, BIRTH) and task_id not in known:
            remove_files(os.path.join(folder, task_id))


def remove_files(stem: str) -> None:
    """What a supervisor keeps of a task. Twice-safe."""
    for path in (stem + LOG, stem + BIRTH):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
