"""Runs the agent on threads and real connections. It decides nothing.

    supervisor   connects, lists, reads the link; finds it again when it ends
    reports      registers and reports, one call at a time
    acquires     the one parked call; its end is how a lost plane is noticed at once
    logs         ships log bytes, so that bulk never delays a heartbeat
    clock        brings a `Tick` when the agent asked for one
    work (pool)  prepares and collects what may take a while; see `task_work`

Whoever brings an event runs the agent under the lock and hands its instructions on; nothing done
there waits for anybody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

from gpulayer.clock import Clock
from gpulayer.contracts.messages import Errand, ErrandDone, StreamOrder
from gpulayer.errors import GPULayerError, NotFoundError, RefusedError
from gpulayer.runtime import frames
from gpulayer.slugs import SLUGS
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.agent import Agent
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.supervisor_link import SupervisorLink
from gpulayer.worker.task_work import TAIL_BYTES, Tasks, TaskWork, told_log

_RECONNECT_SECONDS = 0.1


class Driver:
    """Start once, stop once. `left` is set when the agent has left or was stopped."""

    def __init__(
        self,
        agent: Agent,
        channel: WorkerChannel,
        tasks: Tasks,
        clock: Clock,
        *,
        connect: Callable[[], SupervisorLink],
        remember: Callable[[float], None],
        start_plane: Callable[[], None],
        probe: Callable[[tuple[str, ...]], Mapping[str, Any]],
        on_error: Callable[[BaseException], None],
        do_errand: Callable[[Errand], Mapping[str, Any]],
        join_stream: Callable[[StreamOrder], None] = lambda order: None,
    ) -> None:
        """`connect` starts a supervisor where there is none; `OSError` means: not yet."""
        self.left = threading.Event()
        self._agent = agent
        self._channel = channel
        self._clock = clock
        self._connect = connect
        self._remember = remember
        self._start_plane = start_plane
        self._probe = probe
        self._on_error = on_error
        self._join_stream = join_stream
        self._do_errand = do_errand
        self._errands: set[str] = set()
        """Under way."""
        self._lock = threading.Lock()
        self._is_sooner = threading.Condition(self._lock)
        """The clock has something to do earlier than it thought."""
        self._link: SupervisorLink | None = None
        self._ticks_at = float("inf")
        self._work = TaskWork(
            tasks,
            channel,
            clock,
            self.left,
            link=lambda: self._link,
            starts_by=self._starts_by,
            running=lambda: [slot for slot in agent.slots.all if slot.phase == "running"],
            post=self.post,
            on_error=on_error,
        )
        self._reports: SimpleQueue[say.SendRegister | say.SendReport | None] = SimpleQueue()
        self._acquires: SimpleQueue[say.SendAcquire | None] = SimpleQueue()
        self._ships: SimpleQueue[say.Ship | None] = SimpleQueue()
        loops = {
            "supervisor": self._serve_supervisor,
            "reports": lambda: _drain(self._reports, self._call),
            "acquires": lambda: _drain(self._acquires, self._call),
            "logs": lambda: _drain(self._ships, self._call),
            "clock": self._keep_time,
        }
        self._threads = [
            threading.Thread(target=loop, name=f"gpulayer-{name}", daemon=True)
            for name, loop in loops.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all threads. Tasks go on under their supervisor. Safe from any thread, and twice."""
        self.left.set()
        self._channel.close()
        for queue in (self._reports, self._acquires, self._ships):
            queue.put(None)
        with self._lock:
            self._is_sooner.notify_all()
            link = self._link
        if link is not None:
            link.close()
        self._work.plane_is_back()
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join()
        self._work.stop()

    def held(self) -> frozenset[str]:
        """The tasks of this moment."""
        with self._lock:
            return frozenset(slot.task_id for slot in self._agent.slots.all)

    def post(self, event: heard.Event) -> None:
        """Bring a fact. Safe from any thread."""
        with self._lock:
            if self.left.is_set():
                return
            begun = map(self._begin, self._agent.handle(event, self._clock.boottime()))
            works = [work for work in begun if work is not None]
            deadline = self._agent.deadline()
            if deadline < self._ticks_at:
                self._ticks_at = deadline
                self._is_sooner.notify_all()
        for work in works:
            self._work.guarded(work)

    def _starts_by(self, order: say.Run) -> float | None:
        with self._lock:
            return self._agent.starts_by(order.assignment.task_id, order.number)

    def _begin(self, instruction: say.Instruction) -> Callable[[], None] | None:
        """What is left to be done without the lock."""
        match instruction:
            case say.SendRegister() | say.SendReport():
                self._reports.put(instruction)
            case say.SendAcquire():
                self._acquires.put(instruction)
            case say.Ship():
                self._ships.put(instruction)
            case say.Remember(at):
                self._remember(at)
            case say.Lease(until):
                self._ask("lease", until=dict(until))
            case say.Run():
                # Bound to this very link: after a loss the agent asks again, for the next one.
                link = self._link
                return lambda: self._work.run(instruction, link)
            case say.Collect():
                return lambda: self._work.collect(instruction)
            case say.LookAtRun():
                self._work.look(instruction)
            case say.KeepCheckpoints():
                return lambda: self._work.keep_checkpoints(instruction)
            case say.Tail(task_id, offset):
                self._tail(task_id, offset)
            case say.End(task_id, mode, grace):
                self._ask("cancel", task_id=task_id, mode=mode, grace_seconds=grace)
            case say.Forget(task_id):
                # Of both, the last one removes the folder. A supervisor that is away lists the
                # task when it is back, and it is forgotten then.
                self._ask("forget", task_id=task_id)
                return lambda: self._work.forget(task_id)
            case say.DropEnvelopes(ids):
                self._ask("drop", envelope_ids=list(ids))
            case say.KeepEnvelopes(ids):
                self._ask("keep", envelope_ids=list(ids))
            case say.Probe(paths):
                self._work.later(lambda: self.post(heard.CapabilitiesChanged(self._probe(paths))))
            case say.JoinStream(order):
                self._join_stream(order)
            case say.DoErrand():
                return lambda: self._begin_errand(instruction)
            case say.StartPlane():
                self._work.later(self._start_plane)
            case say.Leave():
                self._ask("quit")
                self.left.set()
                threading.Thread(target=self.stop, name="gpulayer-stop").start()
        return None

    # --- plane ------------------------------------------------------------------------------

    def _call(self, order: say.SendRegister | say.SendReport | say.SendAcquire | say.Ship) -> None:
        try:
            match order:
                case say.SendRegister(session, register):
                    self.post(heard.RegisterAnswered(session, self._channel.register(register)))
                    self._work.plane_is_back()
                case say.SendReport(session, report):
                    self.post(heard.ReportAnswered(session, self._channel.report(report)))
                case say.SendAcquire(session, number, acquire):
                    acquired = self._channel.acquire(acquire)
                    self.post(heard.AcquireAnswered(session, number, acquired))
                case say.Ship():
                    self.post(self._ship(order))
        except Exception as error:  # whatever it is, the thread lives and the call is made again
            if not isinstance(error, OSError):
                self._on_error(error)
            if isinstance(order, say.SendReport) and _is_final(error):
                self.post(heard.ReportRefused(order.session, str(error)))
            else:
                self.post(heard.CallFailed(order.session))

    def _ship(self, order: say.Ship) -> heard.LogShipped:
        size: int | None = None
        try:
            size = self._channel.append_log(order.task_id, order.fence, order.offset, order.data)
        except (NotFoundError, RefusedError):
            pass  # a stale fence: the report will hear what to do with the task
        return heard.LogShipped(order.session, order.task_id, order.number, size)

    def _begin_errand(self, order: say.DoErrand) -> None:
        """On a thread of its own: a look at all that is kept takes a while."""
        errand = order.errand
        with self._lock:
            if errand.id in self._errands:
                return
            self._errands.add(errand.id)

        def work() -> None:
            try:
                answer, why = self._do_errand(errand), ""
            except Exception as error:
                answer, why = {}, str(error) or type(error).__name__
            try:
                done = ErrandDone(order.worker_id, order.incarnation, errand.id, answer, why)
                self._channel.errand_done(done)
            except OSError:
                pass  # it is asked for again
            finally:
                with self._lock:
                    self._errands.discard(errand.id)

        threading.Thread(
            target=self._work.guarded, args=(work,), name="gpulayer-errand", daemon=True
        ).start()

    def _keep_time(self) -> None:
        while not self.left.is_set():
            with self._lock:
                now = self._clock.boottime()
                if self._ticks_at <= now:  # as of then; what was due may have been done since
                    self._ticks_at = self._agent.deadline()
                wait = self._ticks_at - now
                if wait > 0:
                    self._is_sooner.wait(None if wait == float("inf") else wait)
                    continue
                self._ticks_at = float("inf")
            self.post(heard.Tick())

    # --- supervisor -------------------------------------------------------------------------

    def _serve_supervisor(self) -> None:
        while not self.left.is_set():
            try:
                link = self._connect()
                listed = link.listed()
            except (OSError, EOFError, frames.Refused) as error:
                self._on_error(error)
                self.left.wait(_RECONNECT_SECONDS)
                continue
            with self._lock:
                self._link = link
            self.post(heard.SupervisorListed(listed))
            self._work.tasks_run()
            if self.left.is_set():
                link.close()
            link.serve()
            self.post(heard.SupervisorLost())

    def _ask(self, op: str, **fields: Any) -> None:
        if self._link is not None:
            self._link.ask(op, **fields)

    def _tail(self, task_id: str, offset: int) -> None:
        if self._link is not None:
            fields = {"task_id": task_id, "offset": offset, "max_bytes": TAIL_BYTES}
            self._link.ask("tail", told_log(self.post, task_id, offset), **fields)


def _is_final(error: Exception) -> bool:
    """Whether the same report would be refused again, for what it says."""
    if not isinstance(error, GPULayerError):
        return False
    slug = SLUGS.get(error.code)
    return error.code == "internal" or (slug is not None and slug.status in (400, 413, 422))


def _drain(queue: SimpleQueue[Any], call: Callable[[Any], None]) -> None:
    while (order := queue.get()) is not None:
        call(order)
