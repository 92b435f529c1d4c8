"""One worker put together, for a process of its own and for an embedded plane alike."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpulayer._version import __version__
from gpulayer.clock import Clock, Ids
from gpulayer.contracts.ids import LOCAL_WORKER
from gpulayer.contracts.keeping import TIDY_SECONDS, WORKSPACE_BYTES
from gpulayer.contracts.messages import StreamOrder
from gpulayer.runtime import frames
from gpulayer.worker.agent import Agent
from gpulayer.worker.artifact_cache import ArtifactCache
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.driver import Driver
from gpulayer.worker.environments.store import Environments
from gpulayer.worker.errands import Errands
from gpulayer.worker.events import CapabilitiesChanged
from gpulayer.worker.images import container
from gpulayer.worker.images.engine import Engines
from gpulayer.worker.images.store import Images
from gpulayer.worker.images.sweep import sweep as sweep_containers
from gpulayer.worker.lock import WorkerLock
from gpulayer.worker.machine import ThisMachine
from gpulayer.worker.secrets.book import Book
from gpulayer.worker.steps import leftovers
from gpulayer.worker.streams import Streams, as_command
from gpulayer.worker.supervisor_link import SupervisorLink
from gpulayer.worker.task_runner import TaskRunner
from gpulayer.worker.worlds import Worlds

LOOK_SECONDS = 1.0
DISCOVER_SECONDS = 60.0
"""How often the drivers of a machine with GPUs are asked."""
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
    name: str = ""
    """Of a worker that joined; it is also its id. Empty: the one of the plane's own machine."""
    python: str = ""
    """For jobs that bring none; empty: our own."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Data sets that this machine has: where each is."""
    secrets: str = ""
    """Path of the list of secrets that jobs may have."""
    environ: Mapping[str, str] | None = None
    """What jobs of another machine may be given, and their secrets; None: our own."""


class Worker:
    """Start once, stop once. Tasks live on under their supervisor when it is stopped."""

    def __init__(self, channel: WorkerChannel, outside: Outside, clock: Clock, ids: Ids) -> None:
        self._outside = outside
        self._clock = clock
        self._lock = WorkerLock(outside.lock)
        self._channel = channel
        self._nonce = ids.token(20)
        self._python = outside.python or sys.executable
        self._environ = dict(os.environ if outside.environ is None else outside.environ)
        there = [name for name, path in outside.data.items() if os.path.exists(path)]
        self._book = Book(outside.secrets, self._environ, clock)
        engines = Engines(self._environ)
        self._machine = ThisMachine(
            outside.tasks, self._environ, self._python, there, self._book.names(), engines
        )
        beside = os.path.dirname(outside.tasks)
        self._images = Images(os.path.join(beside, "images"), outside.tasks, clock, engines)
        self._environments = Environments(
            os.path.join(beside, "environments"), outside.tasks, clock
        )
        self._started_supervisor = clock.monotonic()
        self._driver: Driver | None = None
        self._cache = ArtifactCache(os.path.join(beside, "cache"), channel.get_artifact, clock)
        self._has_swept = False
        self._streams = Streams(
            lambda stream: channel.join_stream(stream),
            self._visit,
            clock,
            outside.on_error,
            self._enter,
        )
        self._errands = Errands(
            outside.tasks, self._environments, self._cache, self._held, self._images
        )

    def start(self) -> bool:
        """False: another worker of this home is alive, and nothing was started."""
        if not self._lock.take():
            self._lock.release()
            return False
        self._driver = self._make_driver()
        self._driver.start()
        threading.Thread(target=self._discover, name="gpulayer-discovery", daemon=True).start()
        threading.Thread(target=self._tidy, name="gpulayer-tidy", daemon=True).start()
        return True

    def stay(self) -> None:
        """Return once it has left, or its home is gone. Only after `start` said True."""
        assert self._driver is not None
        while not self._driver.left.wait(LOOK_SECONDS):
            if not self._lock.in_place():
                return
            if self._machine.gives(self._book.names()):  # the list was changed
                self._driver.post(CapabilitiesChanged(self._machine.at_once()))

    def has_left(self, seconds: float) -> bool:
        """Whether it has left within that time, as its plane asked it to."""
        return self._driver is None or self._driver.left.wait(seconds)

    def stop(self) -> None:
        """Twice-safe."""
        if self._driver is not None:
            self._driver.stop()
        self._lock.release()

    def _make_driver(self) -> Driver:
        capabilities = self._machine.at_once()
        name = self._outside.name
        heard = _number(self._lock.noted())
        return Driver(
            Agent(
                name or LOCAL_WORKER,
                name or capabilities["hostname"],
                self._nonce,
                "remote" if name else "local",
                capabilities,
                heard,
                place=self._lock.place,
            ),
            self._channel,
            TaskRunner(
                self._outside.tasks,
                self._clock,
                interpreter=self._python,
                environ=self._environ,
                artifacts=self._cache,
                data=self._outside.data,
                secrets_allowed=self._book,
                environments=self._environments,
                images=self._images,
                worlds=Worlds(name or capabilities["hostname"], lambda: self._machine.known),
                worker=name or capabilities["hostname"],
            ),
            self._clock,
            connect=self._connect,
            remember=lambda at: self._lock.note(repr(at)),
            start_plane=self._outside.start_plane,
            probe=self._machine.probe,
            on_error=self._outside.on_error,
            join_stream=self._begin_stream,
            do_errand=self._errands.do,
        )

    def _held(self) -> frozenset[str]:
        return frozenset() if self._driver is None else self._driver.held()

    def _visit(self) -> frames.Connection:
        """A connection of its own to the supervisor, for one stream."""
        connection = frames.connect(self._outside.supervisor_socket, PATIENCE_SECONDS)
        try:
            connection.greet("client", __version__, PATIENCE_SECONDS * 10)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin_stream(self, order: StreamOrder) -> None:
        folder = os.path.join(self._outside.tasks, order.task_id)
        self._streams.begin(as_command(order, folder) if order.kind == "stacks" else order)

    def _enter(self, order: StreamOrder) -> tuple[list[str], str] | None:
        folder = os.path.join(self._outside.tasks, order.task_id)
        return container.entering(folder, order.stream, order.argv, order.set)

    def _connect(self) -> SupervisorLink:
        try:
            link = SupervisorLink.connect(self._outside.supervisor_socket)
            self._started_supervisor = float("-inf")  # when this one ends, another starts at once
            if not self._has_swept:  # nothing is prepared yet
                known = {task.task_id for task in link.listed()}
                leftovers.sweep(self._outside.tasks, known, self._clock.now())
                self._has_swept = True
            return link
        except (OSError, EOFError):
            now = self._clock.monotonic()
            if now >= self._started_supervisor + PATIENCE_SECONDS:
                self._started_supervisor = now
                self._outside.start_supervisor()
            raise

    def _discover(self) -> None:
        driver = self._driver
        assert driver is not None
        while True:
            try:
                self._machine.ask(lambda found: driver.post(CapabilitiesChanged(found)))
            except Exception as error:
                self._outside.on_error(error)
            self._clear_containers(driver)
            if not self._machine.asks_again or driver.left.wait(DISCOVER_SECONDS):
                return

    def _clear_containers(self, driver: Driver) -> None:
        """Those of tasks that nobody knows any more."""
        try:
            sweep_containers(self._images.engines, self._outside.tasks, driver.held)
        except OSError as error:
            self._outside.on_error(error)

    def _tidy(self) -> None:
        driver = self._driver
        assert driver is not None
        while not driver.left.wait(TIDY_SECONDS):
            try:
                held, now = driver.held(), self._clock.now()
                leftovers.sweep(self._outside.tasks, held, now, WORKSPACE_BYTES)
                self._cache.tidy()
                self._environments.trim()
                self._images.trim()
                self._clear_containers(driver)
            except OSError as error:  # the next time again
                self._outside.on_error(error)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("-inf")
