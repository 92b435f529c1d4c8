"""Giving queued jobs to workers: snapshot, place, apply, wake.

    write      a use case that makes room or brings work, and a pass, in one commit
    run_once:  the due heads of the queue by shape, and the workers as they are now
               -> place (pure) -> lifecycle.placed or .failed (pure) -> one transaction

A pass costs shapes and workers, not the length of the queue: of each shape only the first few
jobs are looked at, and another pass follows while one still finds something to do.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TypeVar

from gpulayer.contracts.decision import (
    Decision,
    Outcome,
    Sent,
    Shape,
)
from gpulayer.contracts.ids import JobId, ShapeId, TaskId, WorkerId
from gpulayer.contracts.messages import Assignment
from gpulayer.control_plane import dependencies, elements, room
from gpulayer.control_plane.election import Election
from gpulayer.control_plane.lifecycle import jobs as rules
from gpulayer.control_plane.meters import Meters
from gpulayer.control_plane.orders import assignment, is_ready
from gpulayer.control_plane.ports import Ports, Tx, after, commit, then
from gpulayer.control_plane.scheduler import ahead, heads
from gpulayer.control_plane.scheduler.place import Pass as SchedulingPass
from gpulayer.control_plane.scheduler.replay import as_seen
from gpulayer.control_plane.sessions import Sessions
from gpulayer.control_plane.snapshots import Snapshots
from gpulayer.control_plane.wakeups import ANY_JOB, QUEUE, job_topic, worker_topic

T = TypeVar("T")

LOG = logging.getLogger("gpulayer.plane")
_SHAPES = 4096
"""Most shapes that are remembered between passes."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did."""

    moved: int
    """Jobs that were placed or failed."""
    given: Mapping[WorkerId, Sequence[Assignment]]
    """What was placed, by worker."""
    topics: frozenset[str]
    """Of what it changed, and of workers that are asked something."""
    said: Mapping[ShapeId, tuple[object, ...]]
    """Of each shape that waits: what its decision says."""
    has_more: bool
    """Jobs were left out of it that may find room: like them no job waits for any."""
    waited: Sequence[float] = ()
    """Seconds that each placed job had to wait since it could be placed."""


_IDLE = Pass(0, {}, frozenset(), {}, has_more=False)
_LEFT = Pass(0, {}, frozenset({QUEUE}), {}, has_more=False)
"""Another plane schedules now."""


class Dispatcher:
    """Thread-safe. Asking for a pass while one is queued costs nothing."""

    def __init__(
        self,
        ports: Ports,
        sessions: Sessions,
        snapshots: Snapshots,
        election: Election,
        meters: Meters,
    ) -> None:
        self._ports = ports
        self._snapshots = snapshots
        self._meters = meters
        self._sessions = sessions
        self._election = election
        self._lock = Lock()
        self._is_queued = False
        self._shapes: dict[ShapeId, Shape] = {}
        self._said: Mapping[ShapeId, tuple[object, ...]] = {}
        """By the newest pass. A queue that waits for the same reason has nothing to write down."""
        self._moved = 0
        """By the newest pass."""
        self._may_be_ahead = True
        """Some task may be on its way that holds nothing yet."""
        self._may_have_arrays = True
        """Some array may have elements left to give out."""

    def request(self) -> None:
        """See to it that a pass begins after now. What was committed before now is in it."""
        if not self._ports.settings.dispatches_at_once:
            return
        if not self._election.is_elected:
            self._ports.wakeups.publish(QUEUE)
            return
        with self._lock:
            if self._is_queued:
                return
            self._is_queued = True
        self.run_once().add_done_callback(_told_if_failed)

    def run_once(self) -> Future[Pass]:
        """One pass, in one transaction. Wakes whom it concerns."""
        return then(self._ports.write(self._asked), self._tell)

    def write(
        self, use_case: Callable[[Tx], T], *, reply_to: WorkerId | None = None
    ) -> Future[tuple[T, tuple[Assignment, ...]]]:
        """Durably, with a pass behind it in the same commit; a pass that fails fails alone. What
        it places on `reply_to` is answered too: the caller tells that worker."""
        if not self._ports.settings.dispatches_at_once or not self._election.is_elected:
            return then(self._ports.write(use_case, durable=True), self._left_to_others)
        written, placed = self._ports.write_both(use_case, self._place, durable=True)

        def given(_: Future[Pass]) -> tuple[T, tuple[Assignment, ...]]:
            _told_if_failed(placed)
            passed = self._tell(placed.result() if placed.exception() is None else _IDLE, reply_to)
            mine = () if reply_to is None else passed.given.get(reply_to, ())
            return written.result(), tuple(mine)

        return after(placed, given)

    def elected(self) -> None:
        """From now on this plane schedules; what it knew of the queue is old."""
        self._said, self._moved = {}, 0
        self._may_have_arrays = True
        self.request()

    def asked_from_afar(self) -> None:
        """Another plane has brought work."""
        if self._election.is_elected:
            self.request()

    def _asked(self, tx: Tx) -> Pass:
        with self._lock:
            self._is_queued = False
        return self._place(tx)

    def _left_to_others(self, done: T) -> tuple[T, tuple[Assignment, ...]]:
        if not self._election.is_elected:
            self._ports.wakeups.publish(QUEUE)
        return done, ()

    def _place(self, tx: Tx) -> Pass:
        if not self._election.is_mine(tx):
            return _LEFT
        now = self._ports.clock.now()
        topics = set(dependencies.settle(tx, now))
        most = heads.most(self._moved, self._ports.settings.pass_jobs)
        queue = tuple(tx.ready_heads(now, most))
        if self._may_have_arrays or any(pending.is_array for pending in queue):
            queue, self._may_have_arrays = elements.offered(tx, queue, most, now)
        sent = tx.sent_ahead() if self._may_be_ahead else []
        self._may_be_ahead = bool(sent)
        if not queue and not sent:
            return dataclasses.replace(_IDLE, topics=frozenset(topics)) if topics else _IDLE
        asked = {pending.shape_id for pending in queue} | {one.shape_id for one in sent}
        shapes = {shape_id: self._shape(tx, shape_id) for shape_id in asked}
        given: dict[WorkerId, list[Assignment]] = {}
        # Where all that waits is alike there is nobody to pass anybody.
        reserves = len({pending.shape_id for pending in queue}) > 1
        workers = self._snapshots.views(tx, sent, timed=reserves)
        begun = ahead.to_begin(workers, sent)
        for one in begun:
            given.setdefault(one.worker_id, []).append(self._begun(tx, one))
        limits = {"heads": most} | ({"now": now} if reserves else {})
        snapshot = self._snapshots.of(queue, shapes, ahead.with_begun(workers, begun), **limits)
        said: dict[ShapeId, tuple[object, ...]] = {}
        moved, waited = 0, list[float]()
        # A queued job is answered with its shape's newest decision: those that wait come last.
        scheduled = SchedulingPass(snapshot)
        decisions = as_seen(snapshot, tuple(scheduled.run()))
        for decision, seen in sorted(decisions, key=lambda d: d[0].outcome is Outcome.WAITING):
            tasks = self._carry_out(tx, decision, now, waited)
            if tasks is None:
                said[decision.shape_id] = (decision.outcome, decision.verdicts, decision.summary)
                is_told = self._said.get(decision.shape_id) == said[decision.shape_id]
                if is_told or decision.outcome is Outcome.PLACED:
                    continue  # one that could not be carried out is no reason to wait
            else:
                moved += 1
                topics |= {job_topic(decision.job_id)} | ({ANY_JOB} if not tasks else set())
                for worker_id, work in tasks:
                    given.setdefault(worker_id, []).append(work)
            tx.put_decision(decision, at=now, inputs={"snapshot": seen})
        began = {one.task_id for one in begun}
        for one in scheduled.to_recall([one for one in sent if one.task_id not in began]):
            commit(tx, rules.recalled(TaskId(one.task_id)))
            topics.add(worker_topic(one.worker_id))
        topics |= self._ask_about(shapes[shape_id].interpreter for shape_id in said)
        self._may_be_ahead |= any(work.ahead for works in given.values() for work in works)
        has_more = moved > 0 and heads.may_have_more(queue, most, said)
        return Pass(moved, given, frozenset(topics), said, has_more, waited)

    def _begun(self, tx: Tx, one: Sent) -> Assignment:
        """There is room for it by now: the word for its worker."""
        commit(tx, rules.begun(TaskId(one.task_id)))
        job, task = tx.job(JobId(one.job_id)), tx.task(TaskId(one.task_id))
        if job is None or task is None:
            raise LookupError(f"live task {one.task_id} has no job")
        return assignment(tx, job, task)

    def _ask_about(self, interpreters: Iterable[str | None]) -> set[str]:
        """Have the workers here look at the interpreters of waiting jobs that they do not know."""
        wanted = {path for path in interpreters if path is not None}
        topics = set()
        for session in self._sessions.all():
            known = {i.path for i in session.capabilities.interpreters if i.frameworks is not None}
            session.unprobed = frozenset(wanted - known if session.worker.target == "local" else ())
            if session.unprobed:
                topics.add(worker_topic(session.worker.id))
        return topics

    def _shape(self, tx: Tx, shape_id: ShapeId) -> Shape:
        """An id names its content, so what was read once stays good."""
        shape = self._shapes.get(shape_id) or tx.shape(shape_id)
        if shape is None:
            raise LookupError(f"shape {shape_id} of a queued job is not stored")
        if len(self._shapes) >= _SHAPES:
            self._shapes.clear()
        self._shapes[shape_id] = shape
        return shape

    def _carry_out(
        self, tx: Tx, decision: Decision, now: float, waited: list[float]
    ) -> list[tuple[WorkerId, Assignment]] | None:
        """What it gives to whom; None: the job goes on waiting. Adds how long a placed one did."""
        if decision.outcome is Outcome.WAITING:
            return None
        job = tx.job(decision.job_id)
        if job is None or job.finished_at is not None:
            return None
        if decision.outcome is Outcome.UNSCHEDULABLE:
            changes = elements.unschedulable(tx, job, decision, now)
        else:
            sessions = {p.worker_id: self._sessions.get(p.worker_id) for p in decision.placements}
            incarnations = {w: s.worker.incarnation for w, s in sessions.items() if s is not None}
            fences = tx.next_fences(len(decision.placements))
            slots = partial(room.slots, self._sessions, decision)
            changes = elements.placed(tx, job, decision, fences, incarnations, now, slots)
        if not changes or not tx.apply(changes):
            return None
        self._snapshots.note_limit(job)
        if changes.tasks:
            waited.append(max(0.0, now - max(job.submitted_at, job.not_before)))
        gang = changes.tasks if len(changes.tasks) > 1 else ()
        return [
            (task.worker_id, assignment(tx, job, task, gang, self._sessions))
            for task in changes.tasks
            if is_ready(job, task, gang)
        ]

    def _tell(self, done: Pass, but: WorkerId | None = None) -> Pass:
        """`but`: a worker that is told by somebody else."""
        self._said, self._moved = done.said, done.moved
        self._meters.waited.add(done.waited)
        workers = [worker_topic(worker_id) for worker_id in done.given if worker_id != but]
        self._ports.wakeups.publish(*workers, *done.topics)
        if done.has_more:
            self.request()
        return done


def _told_if_failed(done: Future[Pass]) -> None:
    """Nobody waits for a pass that was only asked for; the next tick asks again."""
    error = done.exception()
    if error is not None:
        LOG.error("a scheduling pass failed: %s", error, exc_info=error)
