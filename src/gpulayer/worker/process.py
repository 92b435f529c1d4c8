"""One worker put together, for a process of its own and for an embedded plane alike."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from gpulayer.clock import Clock, Ids
from gpulayer.worker.agent import Agent
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.driver import Driver
from gpulayer.worker.events import CapabilitiesChanged
from gpulayer.worker.lock import WorkerLock
from gpulayer.worker.machine import ThisMachine
from gpulayer.worker.supervisor_link import SupervisorLink
from gpulayer.worker.task_runner import TaskRunner

WORKER_ID = "local"
LOOK_SECONDS = 1.0
PATIENCE_SECONDS = 1.0
"""How long a supervisor may take to appear before another one is started."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What a worker needs from where it is put."""

    lock: str
    """Path of the lock file."""
    tasks: str
    """Folder of the tasks' folders."""
    supervisor_socket: str
    start_supervisor: Callable[[], None]
    start_plane: Callable[[], None]
    on_error: Callable[[BaseException], None]


class Worker:
    """Start once, stop once. Tasks live on under their supervisor when it is stopped."""

    def __init__(self, channel: WorkerChannel, outside: Outside, clock: Clock, ids: Ids) -> None:
        self._outside = outside
        self._clock = clock
        self._lock = WorkerLock(outside.lock)
        self._machine = ThisMachine(outside.tasks)
        self._started_supervisor = clock.monotonic()
        capabilities = self._machine.at_once()
        self._driver = Driver(
            Agent(WORKER_ID, capabilities["hostname"], ids.token(20), "local", capabilities),
            channel,
            TaskRunner(outside.tasks, clock, interpreter=sys.executable, environ=dict(os.environ)),
            clock,
            connect=self._connect,
            start_plane=outside.start_plane,
            on_error=outside.on_error,
        )

    def start(self) -> bool:
        """False: another worker of this home is alive, and nothing was started."""
        if not self._lock.take():
            self._lock.release()
            return False
        self._driver.start()
        threading.Thread(target=self._discover, name="gpulayer-discovery", daemon=True).start()
        return True

    def stay(self) -> None:
        """Return once it has left, or its home is gone."""
        while not self._driver.left.wait(LOOK_SECONDS):
            if not self._lock.in_place():
                return

    def stop(self) -> None:
        """Twice-safe."""
        self._driver.stop()
        self._lock.release()

    def _connect(self) -> SupervisorLink:
        try:
            return SupervisorLink.connect(self._outside.supervisor_socket)
        except (OSError, EOFError):
            now = self._clock.monotonic()
            if now >= self._started_supervisor + PATIENCE_SECONDS:
                self._started_supervisor = now
                self._outside.start_supervisor()
            raise

    def _discover(self) -> None:
        try:
            self._machine.ask(lambda found: self._driver.post(CapabilitiesChanged(found)))
        except Exception as error:
            self._outside.on_error(error)
