"""What workers tell: heartbeats, starts, ends, and the inventory that both sides reconcile by.

Each piece of news carries its fence. One about a live task of this incarnation is recorded; one
about a task that is over is told as `late_report` and changes nothing; a process that nobody
owns is answered with an order to end it. A repeated report gets the reply of the first.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.changes import Changes, TaskUpdate
from gpulayer.contracts.ids import TaskId
from gpulayer.contracts.messages import Assignment, Held, Report, ReportReply, TaskReport
from gpulayer.contracts.records import AHEAD_PHASES, Task
from gpulayer.contracts.states import LIVE_TASK_STATES, TERMINAL_TASK_STATES, Reason, TaskState
from gpulayer.control_plane.arrivals import with_what_is_here
from gpulayer.control_plane.endings import (
    end_task,
    end_tasks,
    note_done,
    note_held,
    note_late,
    prepare_task,
    publish,
    reconnect,
    start_task,
)
from gpulayer.control_plane.envelopes import Envelopes
from gpulayer.control_plane.labels import with_granted
from gpulayer.control_plane.lifecycle import tasks as rules
from gpulayer.control_plane.orders import cancels
from gpulayer.control_plane.ports import Places, Ports, Tx, commit, then
from gpulayer.control_plane.sessions import Session, Sessions, holds, waiting
from gpulayer.control_plane.wakeups import job_topic, worker_topic
from gpulayer.errors import UsageError


@dataclass(slots=True)
class _Notes:
    """What recording one report came to."""

    recorded: list[str] = field(default_factory=list)
    kill: list[str] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)


class Reports:
    """Thread-safe. Reports of one incarnation are recorded in the order in which they came."""

    def __init__(
        self,
        ports: Ports,
        sessions: Sessions,
        envelopes: Envelopes,
        places: Places,
    ) -> None:
        self._ports = ports
        self._sessions = sessions
        self._envelopes = envelopes
        self._places = places

    def report(self, message: Report) -> Future[ReportReply]:
        """Answered once it is recorded. `ok` False: register again."""
        session = self._sessions.of(message.worker_id, message.incarnation)
        if session is None:
            return _answer(ReportReply(ok=False))
        with session.lock:
            if message.seq == session.seq and session.reply is not None:
                return session.reply
            if message.seq <= session.seq:
                return _answer(ReportReply(lease_seconds=self._ports.settings.lease_seconds))
            reply = self._record(session, message)
            session.seq, session.reply = message.seq, reply
        reply.add_done_callback(lambda done: _retry_failed(session, done))
        return reply

    def _record(self, session: Session, message: Report) -> Future[ReportReply]:
        if message.capabilities is not None:
            WorkerCapabilities.from_json(message.capabilities)  # refused before it is stored
        sizes = self._keep_logs(message)
        arrived = [with_what_is_here(news, self._ports.artifacts) for news in message.tasks]
        now, heard = self._ports.clock.now(), self._ports.clock.monotonic()
        makes_room = _makes_room(session, message) or not self._sessions.is_online(session, heard)
        is_due = heard - session.written >= self._ports.settings.seen_seconds or (
            bool(self._ports.settings.plane) and holds(message) != session.held
        )
        session.heard = heard
        _believe(session, message)  # before the pass that looks at it
        is_local = session.worker.target == "local"
        dropped = self._envelopes.take_dropped() if is_local else ()

        def record(tx: Tx) -> tuple[_Notes, ReportReply]:
            notes = _Notes()
            for news in arrived:
                self._note(tx, session, news, sizes, notes, now)
            self._compare(tx, session, message.inventory, notes, now)
            if is_due or message.capabilities is not None:
                _see(tx, session, message.capabilities, now)
            settings = self._ports.settings
            return notes, ReportReply(
                lease_seconds=settings.lease_seconds,
                report_seconds=settings.report_every(self._sessions.count),
                recorded=tuple(notes.recorded),
                cancel=tuple(cancels(tx, session.worker.id)),
                kill=tuple(dict.fromkeys(notes.kill)),
                drop_envelopes=dropped,
            )

        def tell(notes: _Notes, reply: ReportReply) -> ReportReply:
            if is_due:
                session.written = heard
            session.kept = frozenset(TaskId(held.task_id) for held in message.inventory)
            session.waits = waiting(message.inventory)
            if session.is_overdue(heard, self._ports.settings.redeliver_seconds):
                notes.topics.add(worker_topic(session.worker.id))
            self._ports.wakeups.publish(*notes.topics)
            return reply

        def give(
            done: tuple[tuple[_Notes, ReportReply], tuple[Assignment, ...]],
        ) -> ReportReply:
            (notes, reply), given = done
            session.handed_out((TaskId(work.task_id) for work in given), heard)
            return dataclasses.replace(tell(notes, reply), assignments=given)

        if makes_room:
            return then(self._places.write(record, reply_to=session.worker.id), give)
        return then(self._ports.write(record), lambda done: tell(*done))

    def _keep_logs(self, message: Report) -> dict[str, int]:
        """Small logs travel with their ends; of each ended task, how much of its log is here."""
        ends = [news for news in message.tasks if news.exit is not None]
        sizes: dict[str, int] = {}
        for news in ends:
            _check_end(news)
        ends = [news for news in ends if news.log_size]
        if not ends:
            return sizes
        with self._ports.store.read() as reader:
            for news in ends:
                task = reader.task(TaskId(news.task_id))
                if task is None or task.fence != news.fence:
                    continue
                data = _decoded(news)
                sizes[task.id] = (
                    self._ports.logs.append(task.job_id, task.id, 0, data)
                    if data and task.state in LIVE_TASK_STATES
                    else self._ports.logs.size(task.job_id, task.id)
                )
        return sizes

    def _note(
        self,
        tx: Tx,
        session: Session,
        news: TaskReport,
        sizes: Mapping[str, int],
        notes: _Notes,
        now: float,
    ) -> None:
        task = tx.task(TaskId(news.task_id))
        if task is None or task.fence != news.fence or task.worker_id != session.worker.id:
            (notes.kill if news.exit is None else notes.recorded).append(news.task_id)
        elif task.state not in LIVE_TASK_STATES:
            self._note_late(tx, task, news, notes, now)
        else:
            if news.rendezvous is not None:
                notes.topics |= publish(tx, task, news.rendezvous)
            self._note_live(tx, task, news, sizes, notes, now)

    def _note_live(
        self,
        tx: Tx,
        task: Task,
        news: TaskReport,
        sizes: Mapping[str, int],
        notes: _Notes,
        now: float,
    ) -> None:
        if news.preparation is not None:
            prepare_task(tx, task, news.preparation, now)
        if news.exit is not None:
            log_size, here = news.log_size or 0, sizes.get(task.id, 0)
            notes.topics |= end_task(
                tx,
                self._ports.ids,
                task,
                news.exit,
                now,
                log_size=log_size,
                log_complete=here >= log_size,
                world=news.world,
            )
            notes.recorded.append(task.id)
        elif news.elements:
            notes.topics |= note_done(tx, task, news.elements, now)
        elif task.state is TaskState.ASSIGNED and news.started_at is not None:
            notes.topics |= start_task(tx, task, news.started_at, now, news.world)
        elif news.phase is not None and news.phase != task.phase:
            update = TaskUpdate(task.id, task.state, {"phase": news.phase})
            commit(tx, Changes(task_updates=(update,)))
            notes.topics |= {job_topic(task.job_id)}

    def _note_late(self, tx: Tx, task: Task, news: TaskReport, notes: _Notes, now: float) -> None:
        (notes.kill if news.exit is None else notes.recorded).append(news.task_id)
        notes.topics |= note_late(tx, task, news.exit, now)

    def _compare(
        self,
        tx: Tx,
        session: Session,
        inventory: tuple[Held, ...],
        notes: _Notes,
        now: float,
    ) -> None:
        """Both ways: what the worker should have and lacks is lost, unless it was never named
        by it; what it has and nobody wants is to end."""
        has = {held.task_id: held for held in inventory}
        live = tx.live_tasks(worker_id=session.worker.id)
        gone = [t for t in live if t.id not in has and _was_there(session, t)]
        for task in live:
            if task.id not in has:
                continue
            if task.disconnected_since is not None:
                notes.topics |= reconnect(tx, task, now)
            if task.state is TaskState.ASSIGNED and _has_begun(task.phase, has[task.id]):
                phase = {"phase": "staging"}  # no news will tell that
                commit(tx, Changes(task_updates=(TaskUpdate(task.id, task.state, phase),)))
        for held in sorted(has.keys() - {task.id for task in live}):
            if has[held].phase != "exited":
                notes.kill.append(held)
                notes.topics |= note_held(tx, session.worker.id, has[held], now)
            elif held not in notes.recorded and tx.task(TaskId(held)) is None:
                notes.recorded.append(held)
        if not gone:
            return
        why = rules.lost(Reason.WORKER_LOST, f"{session.worker.name} no longer has it")
        notes.topics |= end_tasks(tx, self._ports.ids, [(t.id, why) for t in gone], now)


def _has_begun(was: str, held: Held) -> bool:
    """Whether its worker prepares it, or has done so, as far as is not told in its news. One that
    has ended there and was sent ahead has had room, which it may have left to another."""
    if was in AHEAD_PHASES:
        return not held.ahead
    return (was, held.phase) == ("assigned", "staging")


def _was_there(session: Session, task: Task) -> bool:
    """Whether the worker has ever said that it has the task."""
    return task.state is TaskState.RUNNING or task.id in session.kept


def _see(tx: Tx, session: Session, capabilities: Mapping[str, Any] | None, now: float) -> None:
    worker = tx.worker(session.worker.id)
    if worker is None or worker.incarnation != session.worker.incarnation:
        return
    if worker.plane != session.worker.plane:
        return  # it has registered at another plane since
    if capabilities is not None:
        believed = with_granted(capabilities, worker.target, worker.labels)
        labels: Mapping[str, str] = believed.get("labels") or {}
        worker = dataclasses.replace(worker, capabilities=believed, labels=labels)
    held = tuple(sorted(session.held))
    tx.put_worker(dataclasses.replace(worker, seen_at=now, held=held))


def _makes_room(session: Session, message: Report) -> bool:
    """Whether anything of it may let a waiting job run."""
    has_ends = any(news.exit is not None for news in message.tasks)
    return has_ends or message.capabilities is not None or holds(message) != session.held


def _believe(session: Session, message: Report) -> None:
    """What the worker has is so, whether or not this can be written down."""
    session.held = holds(message)
    session.heard_ends(message)
    if message.capabilities is not None:
        worker = session.worker
        believed = with_granted(message.capabilities, worker.target, worker.labels)
        session.capabilities = WorkerCapabilities.from_json(believed)
        session.worker = dataclasses.replace(worker, capabilities=believed)


def _decoded(news: TaskReport) -> bytes:
    if news.log is None:
        return b""
    try:
        return base64.b64decode(news.log, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError("usage", f"the log of {news.task_id} is not base64") from error


def _check_end(news: TaskReport) -> None:
    if news.exit is not None and news.exit.outcome not in TERMINAL_TASK_STATES:
        raise UsageError("usage", f"{news.task_id} cannot end as {news.exit.outcome!r}")


def _retry_failed(session: Session, done: Future[ReportReply]) -> None:
    """A report that could not be recorded may come again under its number."""
    if done.exception() is None:
        return
    with session.lock:
        if session.reply is done:
            session.seq, session.reply = session.seq - 1, None


def _answer(reply: ReportReply) -> Future[ReportReply]:
    answer: Future[ReportReply] = Future()
    answer.set_result(reply)
    return answer
