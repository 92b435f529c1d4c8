"""At most so many calls of a program at one time: the others wait in it for their turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulayer.sdk.executor import JobFuture
    from gpulayer.sdk.job import Job

Begin = Callable[[], "Job"]


class Turns:
    """Any thread may add calls. A thread of its own submits those that had to wait; the program
    does not end before it has submitted the last one."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._waiting: deque[tuple[JobFuture, Begin]] = deque()
        self._running = 0
        self._thread: threading.Thread | None = None

    def add(self, future: JobFuture, begin: Begin) -> None:
        """Submit it now, or when it is its turn. Raises what submitting now does."""
        with self._changed:
            if self._most is not None and (self._waiting or self._running >= self._most):
                self._waiting.append((future, begin))
                future.add_done_callback(lambda _: self._wake())
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="gpulayer-turns")
                    self._thread.start()
                return
            self._running += 1
        try:
            future.begin(begin())
        except BaseException:
            self._free()
            raise
        future.add_done_callback(lambda _: self._free())

    def _run(self) -> None:
        while (turn := self._next()) is not None:
            future, begin = turn
            try:
                future.begin(begin())
            except BaseException as error:
                future.set_exception(error)
            future.add_done_callback(lambda _: self._free())

    def _next(self) -> tuple[JobFuture, Begin] | None:
        """The next that has not been cancelled, once it is its turn; None: none waits."""
        with self._changed:
            while self._waiting:
                if self._waiting[0][0].done():
                    self._waiting.popleft()
                elif self._running < (self._most or 0) and self._waiting[0][0].claim():
                    self._running += 1
                    return self._waiting.popleft()
                else:
                    self._changed.wait()
            self._thread = None
            return None

    def _free(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
