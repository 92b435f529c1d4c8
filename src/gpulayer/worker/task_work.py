"""What is done around one task: its start, what it left, its folder.

A plain command is prepared, started and collected right away, on the thread that heard of the room
or of the end: handing it from thread to thread would cost more than all of that work. What may take
a while (a secret, a file to store, a look at a Python) goes to a few threads of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from gpulayer.clock import Clock
from gpulayer.contracts.messages import Assignment, Exit
from gpulayer.errors import GPULayerError
from gpulayer.runtime import frames
from gpulayer.worker import events as heard, instructions as say, open_files
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.checkpoints import Checkpoints
from gpulayer.worker.metrics import Metrics
from gpulayer.worker.slot import Slot, preparation_in
from gpulayer.worker.steps import warm
from gpulayer.worker.steps.hiding import Clean
from gpulayer.worker.steps.plan import Watch
from gpulayer.worker.supervisor_link import Answered, SupervisorGone, SupervisorLink, answer
from gpulayer.worker.worlds import Worlds

TAIL_BYTES = 1 << 20
_WORKERS = 4
INTERVAL_SECONDS = 300.0
"""Between two checkpoints, where the job does not say."""

Post = Callable[[heard.Event], None]


class Tasks(Protocol):
    """What is needed of `task_runner.TaskRunner`."""

    @property
    def worlds(self) -> Worlds: ...
    def is_plain(self, assignment: Assignment) -> bool: ...
    def waits_long(self, assignment: Assignment) -> bool: ...
    def prepare(
        self, assignment: Assignment, link: SupervisorLink, watch: Watch
    ) -> dict[str, Any]: ...
    def refused(self, error: Exception) -> Exit: ...
    def collect_plain(self, order: say.Collect) -> Exit | None: ...
    def collect(self, order: say.Collect, channel: WorkerChannel, clean: Clean) -> Exit: ...
    def done(self, order: say.LookAtRun) -> tuple[Mapping[str, Any], ...]: ...
    def checkpoint_folder(self, task_id: str, note: Mapping[str, Any]) -> str: ...
    def metrics_file(self, task_id: str) -> str: ...
    def forget_empty(self, task_id: str) -> bool: ...
    def forget(self, task_id: str) -> None: ...


class TaskWork:
    """Each call begins something and returns; what came of it is posted. Safe from any thread."""

    def __init__(
        self,
        tasks: Tasks,
        channel: WorkerChannel,
        clock: Clock,
        left: threading.Event,
        *,
        link: Callable[[], SupervisorLink | None],
        starts_by: Callable[[say.Run], float | None],
        running: Callable[[], Iterable[Slot]],
        post: Post,
        on_error: Callable[[BaseException], None],
    ) -> None:
        """`link` gives the newest one. `starts_by` says until when a run may be started, on the
        clock that counts suspension; None: it is not wanted. `running`: the tasks
        that run. Nothing is tried again once `left` is set."""
        self._link = link
        self._starts_by = starts_by
        self._tasks = tasks
        self._channel = channel
        self._clock = clock
        self._left = left
        self._post = post
        self._on_error = on_error
        self._plane_back = threading.Condition()
        self._checkpoints = Checkpoints(channel, clock, left, self._lives, on_error)
        self._metrics = Metrics(
            channel, clock, left, running, tasks.metrics_file, self._clean, on_error
        )
        self._pool = ThreadPoolExecutor(_WORKERS, "gpulayer-work")

    def run(self, order: say.Run, link: SupervisorLink | None) -> None:
        """Prepare it and ask for its start, over this link or never."""
        if link is None:
            return
        if self._tasks.is_plain(order.assignment):
            self._start(order, link)
        elif self._tasks.waits_long(order.assignment):
            work = (lambda: self._start(order, link),)  # not on the few threads of the pool
            threading.Thread(
                target=self.guarded, args=work, name="gpulayer-environment", daemon=True
            ).start()
        else:
            self.later(lambda: self._start(order, link))

    def keep_checkpoints(self, order: say.KeepCheckpoints) -> None:
        wish = order.note["checkpoint"]
        interval = float(wish.get("interval_seconds") or INTERVAL_SECONDS)
        path = self._tasks.checkpoint_folder(order.task_id, order.note)
        self._checkpoints.begin(order.task_id, order.fence, path, interval, at_once=order.at_once)

    def collect(self, order: say.Collect) -> None:
        keeps = "checkpoint" in order.note
        ending = None if keeps else self._tasks.collect_plain(order)
        if ending is None:
            self.later(lambda: self._collect(order))
        else:
            self._post(heard.TaskCollected(order.task_id, ending))

    def look(self, order: say.LookAtRun) -> None:
        def look() -> None:
            if done := self._tasks.done(order):
                self._post(heard.ElementsDone(order.task_id, done))

        self.later(look)

    def forget(self, task_id: str) -> None:
        self._checkpoints.forget(task_id)
        if not self._tasks.forget_empty(task_id):
            self.later(lambda: self._tasks.forget(task_id))

    def tasks_run(self) -> None:
        """Some do, from now on or from before."""
        self._metrics.wake()

    def later(self, job: Callable[[], None]) -> None:
        """On a thread of the pool."""
        try:
            self._pool.submit(self.guarded, job)
        except RuntimeError:
            pass  # stopping; the next agent finds the task at the supervisor

    def guarded(self, job: Callable[[], None]) -> None:
        """Here and now, whatever it raises."""
        try:
            job()
        except Exception as error:
            self._on_error(error)

    def plane_is_back(self) -> None:
        """Whoever waits for a plane to give or to take something tries again."""
        with self._plane_back:
            self._plane_back.notify_all()

    def stop(self) -> None:
        self._metrics.wake()
        self._pool.shutdown(wait=False)

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
            note = task.get("note") or {}
            if not self._tasks.worlds.is_told(world := str(note.get("world") or "")):
                self.later(lambda: self._tell_world(world))
            tail = link.expect(told_log(self._post, order.assignment.task_id, 0))
            link.ask(
                "start",
                lambda reply, _: self._started(order, reply, task),
                task=task,
                until=self._starts_by(order) or 0.0,
                tail={"seq": tail, "offset": 0, "max_bytes": TAIL_BYTES},
            )

    def _tell_world(self, digest: str) -> None:
        try:
            self._tasks.worlds.tell(digest, self._channel.put_artifacts)
        except OSError:
            pass  # the next task that runs in it tries again

    def _prepared(self, order: say.Run, link: SupervisorLink) -> dict[str, Any]:
        """What a job brings waits until there is a plane to give it, while it is still wanted."""

        def is_wanted() -> bool:
            return not self._left.is_set() and self._starts_by(order) is not None

        def enters(phase: str) -> None:
            self._post(heard.TaskEntered(order.assignment.task_id, order.number, phase))

        while True:
            try:
                return self._tasks.prepare(order.assignment, link, Watch(is_wanted, enters))
            except ConnectionError:
                if not is_wanted():
                    raise
                with self._plane_back:
                    self._plane_back.wait(1.0)

    def _keep_last(self, order: say.Collect) -> None:
        if "checkpoint" in order.note:
            path = self._tasks.checkpoint_folder(order.task_id, order.note)
            self._checkpoints.finish(order.task_id, order.fence, path, order.exit)

    def _lives(self, task_id: str) -> bool:
        """Whether it runs at this moment, as its supervisor and the system say."""
        link = self._link()
        try:
            listed = [] if link is None else link.call("list")["tasks"]
        except (SupervisorGone, frames.Refused):
            return False
        runs = [t for t in listed if t["task_id"] == task_id and t["state"] == "running"]
        return any(t["pid"] and open_files.lives(t["pid"]) for t in runs)

    def _started(self, order: say.Run, reply: dict[str, Any], task: Mapping[str, Any]) -> None:
        try:
            answer(reply)
        except SupervisorGone:
            return
        except frames.Refused as error:
            if error.code == "lease-over":
                self._post(heard.Tick())  # so that its agent knows that before it hears this
            self._refused(order, error)
        else:
            task_id = order.assignment.task_id
            note = task.get("note") or {}
            told = warm.told(preparation_in(note), task, reply)
            known = (note.get("rendezvous"), told, str(note.get("world") or ""))
            self._post(heard.TaskStarted(task_id, order.number, self._clock.now(), *known))
            self._metrics.wake()

    def _refused(self, order: say.Run, error: Exception) -> None:
        ending = self._tasks.refused(error)
        self._post(heard.TaskRefused(order.assignment.task_id, order.number, ending))

    def _clean(self, task_id: str) -> Clean:
        def clean(texts: list[str]) -> list[str] | None:
            link = self._link()
            if link is None:
                raise SupervisorGone("redact")
            try:
                reply = link.call("redact", task_id=task_id, texts=texts)
            except frames.Refused:
                return None
            return list(reply["texts"])

        return clean

    def _collect(self, order: say.Collect) -> None:
        clean, has_secrets = self._clean(order.task_id), bool(order.note.get("secrets"))
        while not self._left.is_set():
            try:
                self._keep_last(order)
                self._metrics.finish(
                    order.task_id, order.fence, order.indices, has_secrets=has_secrets
                )
                ending = self._tasks.collect(order, self._channel, clean)
            except (ConnectionError, SupervisorGone):
                with self._plane_back:  # outputs wait until there is a plane to take them
                    self._plane_back.wait(1.0)
                continue
            self._post(heard.TaskCollected(order.task_id, ending))
            return


def told_log(post: Post, task_id: str, offset: int) -> Answered:
    """Who hears the answer to a `tail`."""

    def answered(reply: dict[str, Any], data: bytes) -> None:
        if "error" not in reply:
            ended = reply["exit"] if reply["eof"] else None
            post(heard.LogRead(task_id, offset, data, ended))
        elif reply["error"]["code"] == "no-such-task":
            post(heard.LogGone(task_id))

    return answered
