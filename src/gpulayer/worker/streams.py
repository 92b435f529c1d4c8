"""The worker's side of streams: a thread for each, from its order to its end.

    plane ==== one connection of its own ==== this thread ---- pipes or a pty ---- the command
                                                   \\---- supervisor: begins it, says how it ended

The supervisor owns the command; this thread owns the other ends of its streams. Should either go,
the command is hung up. What the two sides say to each other is `contracts.stream_words`.
"""

from __future__ import annotations

import dataclasses
import os
import select
import sys
import threading
from collections.abc import Callable

from gpulayer.clock import Clock
from gpulayer.contracts.messages import StreamOrder
from gpulayer.runtime import frames
from gpulayer.worker.channel import Way
from gpulayer.worker.images.container import PLAN
from gpulayer.worker.steps.workload import IMAGE_PYTHON, RUNTIME
from gpulayer.worker.visiting import Enter, Visiting

FAREWELL_SECONDS = 10.0


class Streams:
    """`join` gives the way of a stream's id; `supervisor` a new connection to it; `enter` the way
    into the container of a task that has one."""

    def __init__(
        self,
        join: Callable[[str], Way],
        supervisor: Callable[[], frames.Connection],
        clock: Clock,
        on_error: Callable[[BaseException], None],
        enter: Enter,
    ) -> None:
        self._join = join
        self._supervisor = supervisor
        self._clock = clock
        self._on_error = on_error
        self._enter = enter
        self._lock = threading.Lock()
        self._open: set[str] = set()

    def begin(self, order: StreamOrder) -> None:
        """Returns at once. The same order twice is one stream."""
        with self._lock:
            if order.stream in self._open:
                return
            self._open.add(order.stream)
        threading.Thread(
            target=self._serve, args=(order,), name="gpulayer-stream", daemon=True
        ).start()

    def _serve(self, order: StreamOrder) -> None:
        try:
            way = self._join(order.stream)
            try:
                self._attend(order, way)
            finally:
                way.close()
        except (OSError, EOFError):
            pass  # nobody waits for it any more
        except Exception as error:
            self._on_error(error)
        finally:
            with self._lock:
                self._open.discard(order.stream)

    def _attend(self, order: StreamOrder, way: Way) -> None:
        try:
            supervisor = self._supervisor()
        except (OSError, EOFError, frames.Refused) as error:
            _refuse(way, 125, f"the worker's supervisor does not answer: {error}", self._clock)
            return
        with supervisor:
            visit = Visiting(order, way, supervisor, self._clock, self._enter)
            try:
                visit.begin()
            except (frames.Refused, OSError) as error:
                visit.close()
                _refuse(way, 125, str(error), self._clock)
                return
            try:
                visit.run()
            finally:
                visit.close()
        _let_go(way, self._clock)


def as_command(order: StreamOrder, task_folder: str) -> StreamOrder:
    """An order for the stacks of a task, as the command inside it that prints them."""
    is_in_image = os.path.exists(os.path.join(task_folder, PLAN))
    python = IMAGE_PYTHON if is_in_image else sys.executable
    words = (python, "-I", "-S", os.path.join(RUNTIME, "stacks.py"), task_folder)
    return dataclasses.replace(order, kind="exec", argv=words)


def _refuse(way: Way, code: int, message: str, clock: Clock) -> None:
    way.send_json({"event": "ended", "exit_code": code, "message": message, "refused": True})
    way.finish()
    _let_go(way, clock)


def _let_go(way: Way, clock: Clock) -> None:
    """All of it is sent, however slowly; then the other side ends what it says, in time."""
    until = None
    while not (way.is_flushed and way.has_ended):
        if until is None and way.is_flushed:
            until = clock.monotonic() + FAREWELL_SECONDS
        left = None if until is None else until - clock.monotonic()
        if left is not None and left <= 0:
            return
        poll = select.poll()
        poll.register(way.fileno(), way.events)
        if not way.is_pending:
            poll.poll(None if left is None else left * 1000)
        way.flush()
        way.receive()
