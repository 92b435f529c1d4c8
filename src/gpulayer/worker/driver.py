"""Runs the agent on threads and real connections. It decides nothing.

    supervisor   connects, lists, reads the link; finds it again when it ends
    reports      registers and reports, one call at a time
    acquires     the one parked call; its end is how a lost plane is noticed at once
    logs         ships log bytes, so that bulk never delays a heartbeat
    clock        brings a `Tick` when the agent asked for one
    work (pool)  prepares and collects what may take a while: a secret, a file, a look at a Python

Whoever brings an event runs the agent under the lock and hands its instructions on; nothing done
there waits for anybody. A plain command is prepared, started and collected right there, on the
thread that heard of the room or of the end: handing it from thread to thread would cost more than
all of its work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Protocol

from gpulayer.clock import Clock
from gpulayer.contracts.messages import Assignment, Exit
from gpulayer.errors import SLUGS, GPULayerError, NotFoundError, RefusedError
from gpulayer.runtime import frames
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.agent import Agent
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.steps.hiding import Clean
from gpulayer.worker.supervisor_link import Answered, SupervisorGone, SupervisorLink, answer

TAIL_BYTES = 1 << 20
_WORKERS = 4
_RECONNECT_SECONDS = 0.1


class Tasks(Protocol):
    """What the driver needs of `task_runner.TaskRunner`."""

    def is_plain(self, assignment: Assignment) -> bool: ...
    def prepare(self, assignment: Assignment, link: SupervisorLink) -> dict[str, Any]: ...
    def refused(self, error: Exception) -> Exit: ...
    def collect_plain(self, order: say.Collect) -> Exit | None: ...
    def collect(self, order: say.Collect, channel: WorkerChannel, clean: Clean) -> Exit: ...
    def forget_empty(self, task_id: str) -> bool: ...
    def forget(self, task_id: str) -> None: ...


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
    ) -> None:
        """`connect` starts a supervisor where there is none; `OSError` means: not yet."""
        self.left = threading.Event()
        self._agent = agent
        self._channel = channel
        self._tasks = tasks
        self._clock = clock
        self._connect = connect
        self._remember = remember
        self._start_plane = start_plane
        self._probe = probe
        self._on_error = on_error
        self._lock = threading.Condition()
        self._link: SupervisorLink | None = None
        self._ticks_at = float("inf")
        self._plane_back = threading.Condition()
        self._pool = ThreadPoolExecutor(_WORKERS, "gpulayer-work")
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
            self._lock.notify_all()
            link = self._link
        if link is not None:
            link.close()
        with self._plane_back:
            self._plane_back.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join()
        self._pool.shutdown(wait=False)

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
                self._lock.notify_all()
        for work in works:
            work()

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
            case say.Run():
                # Bound to this very link: after a loss the agent asks again, for the next one.
                link = self._link
                return lambda: self._run(instruction, link)
            case say.Collect():
                return lambda: self._collect(instruction)
            case say.Tail(task_id, offset):
                self._tail(task_id, offset)
            case say.End(task_id, mode, grace):
                self._ask("cancel", task_id=task_id, mode=mode, grace_seconds=grace)
            case say.Forget(task_id):
                # Of both, the last one removes the folder. A supervisor that is away lists the
                # task when it is back, and it is forgotten then.
                self._ask("forget", task_id=task_id)
                return lambda: self._forget(task_id)
            case say.DropEnvelopes(ids):
                self._ask("drop", envelope_ids=list(ids))
            case say.KeepEnvelopes(ids):
                self._ask("keep", envelope_ids=list(ids))
            case say.Probe(paths):
                self._work(lambda: self.post(heard.CapabilitiesChanged(self._probe(paths))))
            case say.StartPlane():
                self._work(self._start_plane)
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
                    with self._plane_back:
                        self._plane_back.notify_all()
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

    def _keep_time(self) -> None:
        while not self.left.is_set():
            with self._lock:
                wait = self._ticks_at - self._clock.boottime()
                if wait > 0:
                    self._lock.wait(None if wait == float("inf") else wait)
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
            self._link.ask("tail", self._read(task_id, offset), **fields)

    def _read(self, task_id: str, offset: int) -> Answered:
        def answered(reply: dict[str, Any], data: bytes) -> None:
            if "error" not in reply:
                ended = reply["exit"] if reply["eof"] else None
                self.post(heard.LogRead(task_id, offset, data, ended))
            elif reply["error"]["code"] == "no-such-task":
                self.post(heard.LogGone(task_id))

        return answered

    # --- tasks ------------------------------------------------------------------------------

    def _work(self, job: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                job()
            except Exception as error:
                self._on_error(error)

        try:
            self._pool.submit(guarded)
        except RuntimeError:
            pass  # stopping; the next agent finds the task at the supervisor

    def _run(self, order: say.Run, link: SupervisorLink | None) -> None:
        if link is None:
            return
        if self._tasks.is_plain(order.assignment):
            self._start(order, link)
        else:
            self._work(lambda: self._start(order, link))

    def _start(self, order: say.Run, link: SupervisorLink) -> None:
        try:
            task = self._prepared(order, link)
        except SupervisorGone:
            return  # the next list says whether it began
        except Exception as error:
            if not isinstance(error, GPULayerError | OSError | frames.Refused):
                self._on_error(error)
            self._refused(order, error)
        else:
            tail = link.expect(self._read(order.assignment.task_id, 0))
            link.ask(
                "start",
                lambda reply, _: self._started(order, reply),
                task=task,
                tail={"seq": tail, "offset": 0, "max_bytes": TAIL_BYTES},
            )

    def _prepared(self, order: say.Run, link: SupervisorLink) -> dict[str, Any]:
        """What a job brings waits until there is a plane to give it, while it is still wanted."""
        while True:
            try:
                return self._tasks.prepare(order.assignment, link)
            except ConnectionError:
                with self._lock:
                    is_wanted = self._agent.wants(order.assignment.task_id, order.number)
                if self.left.is_set() or not is_wanted:
                    raise
                with self._plane_back:
                    self._plane_back.wait(1.0)

    def _started(self, order: say.Run, reply: dict[str, Any]) -> None:
        try:
            answer(reply)
        except SupervisorGone:
            return
        except frames.Refused as error:
            self._refused(order, error)
        else:
            task_id = order.assignment.task_id
            self.post(heard.TaskStarted(task_id, order.number, self._clock.now()))

    def _refused(self, order: say.Run, error: Exception) -> None:
        ending = self._tasks.refused(error)
        self.post(heard.TaskRefused(order.assignment.task_id, order.number, ending))

    def _collect(self, order: say.Collect) -> None:
        ending = self._tasks.collect_plain(order)
        if ending is None:
            self._work(lambda: self._collect_whole(order))
        else:
            self.post(heard.TaskCollected(order.task_id, ending))

    def _forget(self, task_id: str) -> None:
        if not self._tasks.forget_empty(task_id):
            self._work(lambda: self._tasks.forget(task_id))

    def _collect_whole(self, order: say.Collect) -> None:
        def clean(texts: list[str]) -> list[str] | None:
            if self._link is None:
                raise SupervisorGone("redact")
            try:
                reply = self._link.call("redact", task_id=order.task_id, texts=texts)
            except frames.Refused:
                return None
            return list(reply["texts"])

        while not self.left.is_set():
            try:
                ending = self._tasks.collect(order, self._channel, clean)
            except (ConnectionError, SupervisorGone):
                with self._plane_back:  # outputs wait until there is a plane to take them
                    self._plane_back.wait(1.0)
                continue
            self.post(heard.TaskCollected(order.task_id, ending))
            return


def _is_final(error: Exception) -> bool:
    """Whether the same report would be refused again, for what it says."""
    if not isinstance(error, GPULayerError):
        return False
    slug = SLUGS.get(error.code)
    return error.code == "internal" or (slug is not None and slug.status in (400, 413, 422))


def _drain(queue: SimpleQueue[Any], call: Callable[[Any], None]) -> None:
    while (order := queue.get()) is not None:
        call(order)
