"""One thread's event loop: descriptors, timers, signals. No polling: it sleeps until something is.

Not `selectors`, since a cgroup tells of its end by a priority event (poll(2) POLLPRI), which
that module can't ask for. Signals arrive through the wake-up descriptor, which is in place before
any child is made, so none that ends at once is missed.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

READ, PRIORITY, WRITE = select.POLLIN, select.POLLPRI, select.POLLOUT


class Timer:
    """One call in the future. `cancel` is safe at any time, also twice."""

    __slots__ = ("call", "due")

    def __init__(self, due: float, call: Callable[[], object]) -> None:
        self.due = due
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None

    def __lt__(self, other: Timer) -> bool:
        return self.due < other.due


class Loop:
    """`on_error` gets what a call raised; the loop goes on."""

    def __init__(self, on_error: Callable[[BaseException], None]) -> None:
        self._on_error = on_error
        self._epoll: Any = select.epoll() if hasattr(select, "epoll") else None
        self._poll: Any = self._epoll or select.poll()
        self._calls: dict[int, Callable[[], object]] = {}
        self._timers: list[Timer] = []
        self._signals: dict[int, Callable[[], object]] = {}
        self._running = False
        self._wake, self._wakeup = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        self.watch(self._wake, READ, self._deliver)

    def watch(self, fd: int, events: int, call: Callable[[], object]) -> None:
        """Calls whenever one of `events` holds. Replaces an earlier watch of that descriptor.

        Unwatch before closing: a copy of the descriptor in another process would keep it alive.
        """
        if fd in self._calls:
            self._poll.modify(fd, events)
        else:
            self._poll.register(fd, events)
        self._calls[fd] = call

    def unwatch(self, fd: int) -> None:
        if self._calls.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        timer = Timer(time.monotonic() + seconds, call)
        heapq.heappush(self._timers, timer)
        return timer

    def on_signal(self, signum: int, call: Callable[[], object]) -> None:
        self._signals[signum] = call
        signal.signal(signum, _noted)

    def run(self) -> None:
        """Until `stop`."""
        self._running = True
        while self._running:
            self._run_timers()
            if not self._running:
                break
            for fd, _ in self._wait():
                call = self._calls.get(fd)
                if call is not None:
                    self._guard(call)

    def stop(self) -> None:
        self._running = False

    def _wait(self) -> Any:
        while self._timers and self._timers[0].call is None:
            heapq.heappop(self._timers)
        seconds = -1.0
        if self._timers:
            seconds = max(0.0, self._timers[0].due - time.monotonic())
        if self._epoll is not None:
            return self._poll.poll(seconds)
        return self._poll.poll(None if seconds < 0 else int(seconds * 1000) + 1)

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0].due <= now:
            call = heapq.heappop(self._timers).call
            if call is not None:
                self._guard(call)

    def _deliver(self) -> None:
        try:
            arrived = set(os.read(self._wake, 4096))
        except BlockingIOError:
            return
        for signum in arrived:
            call = self._signals.get(signum)
            if call is not None:
                self._guard(call)

    def _guard(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            self._on_error(error)


def _noted(signum: int, frame: object) -> None:
    """The wake-up descriptor has the news; this only keeps the default action away."""
