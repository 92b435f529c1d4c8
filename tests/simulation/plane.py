"""The real plane on a disk that survives it: crashes between messages or at any statement."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from gpulayer.contracts.ids import WorkerId
from gpulayer.contracts.messages import Acquire, Acquired, KeepCheckpoint, Register, Report
from gpulayer.contracts.principals import LOCAL
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.settings import Settings
from gpulayer.control_plane.wakeups import Wakeups, worker_topic
from gpulayer.errors import GPULayerError, NotFoundError, RefusedError
from gpulayer.storage.store import Store
from tests.simulation.engine import Engine, EngineClock, EngineIds
from tests.simulation.machine import Broken
from tests.simulation.network import Answer, Execute

SETTINGS = Settings(settle_seconds=2.0, ahead_seconds=100.0)
"""Jobs are sent ahead of long tasks too, so that being asked back is common."""


class PlaneDied(BaseException):
    """Raised where the plane is killed, so that nothing in it can catch it by mistake."""


class MemoryLogs:
    """The plane's log folder. It outlives the plane, as files do."""

    def __init__(self) -> None:
        self.segments: dict[str, bytearray] = {}
        self._grown: list[str] = []

    def take_grown(self) -> list[str]:
        """The tasks whose logs have grown since this was asked."""
        grown, self._grown = self._grown, []
        return grown

    def append(self, job_id: str, task_id: str, offset: int, data: bytes) -> int:
        log = self.segments.setdefault(task_id, bytearray())
        if offset <= len(log):
            new = data[len(log) - offset :]
            log += new
            if new:
                self._grown.append(task_id)
        return len(log)

    def size(self, job_id: str, task_id: str) -> int:
        return len(self.segments.get(task_id, b""))

    def read(self, job_id: str, task_ids: Any, offset: int, limit: int) -> bytes:
        whole = b"".join(bytes(self.segments.get(task, b"")) for task in task_ids)
        return whole[offset : offset + limit]

    def delete(self, job_id: str) -> int:
        return 0

    def sizes(self) -> dict[Any, int]:
        return {}

    def sweep(self) -> None:
        pass


class PlaneHost:
    """The machine of the plane: one life of it after another over one database."""

    def __init__(
        self,
        engine: Engine,
        folder: str,
        hang_up: Callable[[], None],
        make_plane: Callable[..., Any] = ControlPlane,
    ) -> None:
        self._engine = engine
        self._hang_up = hang_up
        self._make_plane = make_plane
        self._path = os.path.join(folder, "db.sqlite")
        self.clock = EngineClock(engine, base=7_000.0)
        self._ids = EngineIds(engine)
        self.logs = MemoryLogs()
        self.revoked: set[str] = set()
        """Workers whose sessions are no good any more."""
        self.commits = 0
        """How many transactions there have been, over all lives."""
        self.life = 0
        self._countdown = -1
        self._died = False
        self._parks = 0
        self._woken: dict[int, Callable[[], None]] = {}
        self.plane: ControlPlane | None = None
        self.store: Store | None = None
        self.start()

    def start(self) -> None:
        self.life += 1
        self._died = False
        self._countdown = -1
        self._engine.note("plane", f"life {self.life} starts")
        self.store = Store(self._path, inline=True, fault=self._fault)
        self.plane = self._make_plane(
            self.store, self.clock, self._ids, Wakeups(), self.logs, None, SETTINGS
        )
        self._next_tick(self.life)

    def wanted(self) -> None:
        """An agent asks for a plane."""
        if self.plane is None:
            self.start()

    def crash(self, restart_in: float, power_loss: float = 0.0) -> None:
        """Between two messages. With the power, log bytes that were not synced go as well."""
        if self.plane is None or self.store is None:
            return
        self._engine.note("plane", "dies")
        if self._engine.chance(power_loss):
            self._lose_power()
        self.store.close()
        self.plane = self.store = None
        self._hang_up()
        life = self.life
        self._engine.after(restart_in, lambda: self.wanted() if self.life == life else None)

    def crash_in(self, points: int) -> None:
        """At that many points of its transactions from now."""
        self._countdown = points

    def admit(self, execute: Execute, answer: Answer) -> bool:
        return self.inside(lambda: execute(self._living(answer)))

    def inside(self, call: Callable[[], None]) -> bool:
        """Run something in the plane's process, which may die of it. False: there is none."""
        if self.plane is None:
            return False
        try:
            call()
        except PlaneDied:
            self._died = True
        if self._died:
            self.crash(self._engine.rng.uniform(0.1, 8.0))
        return True

    # --- what the plane is asked ------------------------------------------------------------

    def talk(self, message: Any) -> Execute:
        spoken = self._heard(message)
        return lambda answer: self._let_in(message.worker_id, answer, spoken)

    def _heard(self, message: Any) -> Execute:
        match message:
            case Register():
                return lambda answer: self._settle(answer, lambda p: p.register(message))
            case Report():
                return lambda answer: self._settle(answer, lambda p: p.report(message))
            case Acquire():
                return lambda answer: self._acquire(message, answer)
            case _:
                raise TypeError(message)

    def revoke(self, worker_id: str) -> Execute:
        """From now on its words are refused, as `api.guard` does."""

        def verb(plane: ControlPlane) -> Future[Any]:
            done = plane.revoke_worker(WorkerId(worker_id), LOCAL)
            done.result(0)
            self.revoked.add(worker_id)
            return done

        return self.ask(verb)

    def _let_in(self, worker_id: str, answer: Answer, execute: Execute) -> None:
        if worker_id in self.revoked:
            answer(RefusedError("unauthorized", "it was revoked"))
        else:
            execute(answer)

    def ship(self, worker_id: str, task_id: str, fence: int, offset: int, data: bytes) -> Execute:
        def execute(answer: Answer) -> None:
            try:
                assert self.plane is not None
                answer(self.plane.append_log(task_id, fence, offset, data).result(0))
            except (NotFoundError, RefusedError):
                answer(None)

        return lambda answer: self._let_in(worker_id, answer, execute)

    def keep(self, worker_id: str, task_id: str, message: KeepCheckpoint) -> Execute:
        kept = self.ask(lambda plane: plane.keep_checkpoint(task_id, message))
        return lambda answer: self._let_in(worker_id, answer, kept)

    def ask(self, verb: Callable[[ControlPlane], Future[Any]]) -> Execute:
        """A client's call."""
        return lambda answer: self._settle(answer, verb)

    def _settle(self, answer: Answer, verb: Callable[[ControlPlane], Future[Any]]) -> None:
        assert self.plane is not None
        try:
            answer(verb(self.plane).result(0))
        except GPULayerError as error:
            if error.code == "internal":
                raise Broken(f"the plane met a fault of its own: {error}") from error
            answer(error)

    def _acquire(self, message: Acquire, answer: Answer) -> None:
        answered = False
        self._parks += 1
        number = self._parks
        end = self._engine.now + message.park_seconds

        def look() -> None:
            nonlocal answered
            plane = self.plane
            if answered or plane is None:
                return
            last = self._engine.now >= end - 1e-9
            ticket = plane.wakeups.subscribe(worker_topic(message.worker_id))
            found: Acquired = plane.acquire_now(message).result(0)
            if last or found.assignments or found.cancel or found.leave or not found.ok:
                answered = True
                ticket.close()
                answer(found)
            else:
                ticket.future.add_done_callback(lambda _: self._wake(number, again))

        life = self.life

        def again() -> None:
            if self.life == life:
                self.inside(look)

        look()
        self._engine.after(message.park_seconds, again)

    def _wake(self, number: int, again: Callable[[], None]) -> None:
        """Whoever is woken in one instant looks in the order of asking, not of memory addresses."""
        if not self._woken:
            self._engine.after(0.0001, self._let_look)
        self._woken[number] = again

    def _let_look(self) -> None:
        woken, self._woken = sorted(self._woken.items()), {}
        for _, again in woken:
            again()

    # --- inside -----------------------------------------------------------------------------

    def _living(self, answer: Answer) -> Answer:
        """The answer, unless the plane that gives it has died."""
        life = self.life

        def say(value: Any) -> None:
            if self.life == life and self.plane is not None and not self._died:
                answer(value)

        return say

    def _next_tick(self, life: int) -> None:
        def tick() -> None:
            if self.life == life and self.plane is not None:
                self.inside(lambda: self._reconcile())
                self._next_tick(life)

        self._engine.after(SETTINGS.tick_seconds, tick)

    def _reconcile(self) -> None:
        assert self.plane is not None
        try:
            self.plane.reconcile().result(0)
        except GPULayerError as error:
            raise Broken(f"reconcile failed: {error}") from error

    def _lose_power(self) -> None:
        assert self.store is not None
        with self.store.read() as reader:
            live = sorted(task.id for task in reader.live_tasks())
        for task_id in live:
            log = self.logs.segments.get(task_id, bytearray())
            del log[self._engine.rng.randrange(len(log) + 1) :]

    def _fault(self, point: str) -> None:
        if self._died:
            raise PlaneDied
        if point == "committed":
            self.commits += 1
        if self._countdown >= 0:
            self._countdown -= 1
            if self._countdown < 0:
                self._engine.note("plane", f"is killed at {point}")
                self._died = True
                raise PlaneDied
