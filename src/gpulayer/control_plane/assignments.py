"""What a worker is given: tasks to run, orders to end some, and the room for their logs.

A worker that drains is asked to hand back what it has not begun.

The first node of a gang is handed out at once, the others when it has said where they meet.

An assignment is handed out until the worker names it in an inventory, first with the reply to a
report that made room for it (`reports`); an order to end a task, until the task has ended. Both are
harmless twice. Only the newest acquire of a worker is served, so that nothing is handed to a
connection that has died.
"""

from __future__ import annotations

from concurrent.futures import Future

from gpulayer.contracts.changes import Changes, TaskUpdate
from gpulayer.contracts.ids import TaskId
from gpulayer.contracts.messages import Acquire, Acquired, Assignment
from gpulayer.contracts.records import AHEAD_PHASES, Task
from gpulayer.contracts.states import LIVE_TASK_STATES, TaskState
from gpulayer.control_plane.errands import Errands
from gpulayer.control_plane.lifecycle import gangs
from gpulayer.control_plane.orders import assignment, cancels, is_ready
from gpulayer.control_plane.ports import Ports, Reader, Tx, commit
from gpulayer.control_plane.sessions import Session, Sessions
from gpulayer.control_plane.streams import Streams
from gpulayer.control_plane.wakeups import job_topic, worker_topic
from gpulayer.errors import NotFoundError, RefusedError


class Assignments:
    """Thread-safe."""

    def __init__(
        self, ports: Ports, sessions: Sessions, streams: Streams, errands: Errands
    ) -> None:
        self._ports = ports
        self._sessions = sessions
        self._streams = streams
        self._errands = errands
        self._leaving = False

    def acquire_now(self, message: Acquire) -> Future[Acquired]:
        """What there is at this moment; nothing: wait for the topic `worker:<id>` and ask again
        with the same message. `ok` False: this call is over, whoever parks it answers it."""
        answer: Future[Acquired] = Future()
        answer.set_result(self._look(message))
        return answer

    def dismiss(self) -> None:
        """From now on every acquire is told that the plane is going."""
        self._leaving = True
        for session in self._sessions.all():
            self._ports.wakeups.publish(worker_topic(session.worker.id))

    def append_log(self, task_id: str, fence: int, offset: int, data: bytes) -> Future[int]:
        """The size of the segment now. Bytes that are there already are dropped; with a gap
        before `offset` nothing is written and the size is smaller. No data asks for the size.
        Raises where no more is taken, so that nobody sends it for ever."""
        with self._ports.store.read() as reader:
            task = _task_of(reader, task_id, fence)
            if data and not _takes_log(reader, task):
                raise NotFoundError("job-not-found", f"a later attempt closed the log of {task_id}")
        if offset + len(data) > self._ports.settings.log_bytes:
            raise RefusedError(
                "too-large", f"the log of {task_id} is past {self._ports.settings.log_bytes} bytes"
            )
        answer: Future[int] = Future()
        size = self._ports.logs.append(task.job_id, task.id, offset, data)
        if data:
            self._ports.wakeups.publish(job_topic(task.job_id))
        is_late = task.state not in LIVE_TASK_STATES and not task.log_complete
        if is_late and size >= task.log_size > 0:
            return self._complete(task, size)
        answer.set_result(size)
        return answer

    def _look(self, message: Acquire) -> Acquired:
        session = self._sessions.of(message.worker_id, message.incarnation)
        if session is None or not self._is_newest(session, message):
            return Acquired(ok=False)
        if self._leaving:
            # One from elsewhere stays a worker; it registers with the plane that follows.
            return Acquired(leave=True) if session.worker.target == "local" else Acquired(ok=False)
        now = self._ports.clock.monotonic()
        with self._ports.store.read() as reader:
            live = reader.live_tasks(worker_id=session.worker.id)
            orders = cancels(reader, session.worker.id)
            told = [(_verb(session, t), t) for t in live if t.state is TaskState.ASSIGNED]
            ready = [
                ((verb, task.id), given)
                for verb, task in told
                if verb is not None
                and (given := self._assignment(reader, task, verb == "retract")) is not None
            ]
        # Not while reading: a report holds the session's lock when it asks the store.
        wanted: list[tuple[str, str]] = [key for key, _ in ready]
        wanted += [(order.mode, order.task_id) for order in orders]
        wanted += [("probe", path) for path in session.unprobed]
        streams = self._streams.orders(session.worker.id)
        wanted += [("stream", order.stream) for order in streams]
        errands = self._errands.of(session.worker.id) if session.capabilities.errands else []
        wanted += [("errand", errand.id) for errand in errands]
        due = session.hand_out(wanted, now, self._ports.settings.redeliver_seconds)
        work = [(verb, work) for (verb, task_id), work in ready if (verb, task_id) in due]
        return Acquired(
            assignments=tuple(given for verb, given in work if verb != "retract"),
            retract=tuple(given for verb, given in work if verb == "retract"),
            cancel=tuple(order for order in orders if (order.mode, order.task_id) in due),
            probe=tuple(sorted(path for path in session.unprobed if ("probe", path) in due)),
            streams=tuple(order for order in streams if ("stream", order.stream) in due),
            errands=tuple(errand for errand in errands if ("errand", errand.id) in due),
        )

    def _assignment(self, reader: Reader, task: Task, drains: bool) -> Assignment | None:
        """None: a node of a gang that waits for the first one's word."""
        job = reader.job(task.job_id)
        if job is None:
            raise LookupError(f"live task {task.id} has no job")
        if not gangs.is_gang(job):
            return assignment(reader, job, task)
        gang = [task for _, task in sorted(gangs.newest(reader.tasks(job.id)).items())]
        if not (drains or is_ready(job, task, gang)):
            return None
        return assignment(reader, job, task, gang, self._sessions)

    def _is_newest(self, session: Session, message: Acquire) -> bool:
        with session.lock:
            if message.seq < session.acquire or message.seq <= session.retired:
                return False
            superseded = message.seq > session.acquire
            session.acquire = message.seq
        if superseded:
            self._ports.wakeups.publish(worker_topic(session.worker.id))
        return True

    def _complete(self, task: Task, size: int) -> Future[int]:
        def note(tx: Tx) -> int:
            update = TaskUpdate(task.id, task.state, {"log_complete": True})
            commit(tx, Changes(task_updates=(update,)))
            return size

        return self._ports.write(note)


def _verb(session: Session, task: Task) -> str | None:
    """What its worker is to be told of an assigned task. None: it knows."""
    if session.worker.draining or task.phase == "recalled":
        return "retract"  # unless it has begun it
    if task.id not in session.kept:
        return "run"
    return "begin" if task.id in session.waits and task.phase not in AHEAD_PHASES else None


def _task_of(reader: Reader, task_id: str, fence: int) -> Task:
    task = reader.task(TaskId(task_id))
    if task is None or task.fence != fence:
        raise NotFoundError("job-not-found", f"no task is called {task_id} with fence {fence}")
    return task


def _takes_log(reader: Reader, task: Task) -> bool:
    """A later attempt closes the logs of the earlier ones, so that a job's log only ever grows
    at its end."""
    if task.state in LIVE_TASK_STATES:
        return True
    attempts = reader.tasks_of_element(task.job_id, task.index)
    return not any(other.fence > task.fence and other.rank == task.rank for other in attempts)
