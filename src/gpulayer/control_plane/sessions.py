"""What the plane remembers of workers between their words. In memory; a new plane begins anew.

A session is one incarnation of a worker as this plane has met it. It holds nothing that decides
who owns a task (that is the store's), only when the worker was heard, what it said it holds, and
what was handed to it and not yet confirmed. A worker without a session is asked to register.

Of a worker that speaks with another plane of the same store, a far session tells what that plane
writes down: when it heard of it, at the latest `seen_seconds` ago, and at once what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Protocol

from gpulayer.clock import Clock
from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.ids import TaskId, WorkerId
from gpulayer.contracts.messages import Held, Register, Report, ReportReply
from gpulayer.contracts.records import Worker
from gpulayer.control_plane.lifecycle import succession
from gpulayer.control_plane.settings import Settings


@dataclass(slots=True)
class Session:
    """Replace attributes, never change the sets in place: other threads read them."""

    worker: Worker
    capabilities: WorkerCapabilities
    heard: float
    """Monotonic time of its last word."""
    written: float
    """Monotonic time at which `seen_at` was last stored."""
    held: frozenset[TaskId] = frozenset()
    """Of its last inventory: what it has and has not reported ended."""
    kept: frozenset[TaskId] = frozenset()
    """The same with ended tasks that it has not forgotten yet."""
    waits: frozenset[TaskId] = frozenset()
    """Those among them that wait for room."""
    pace: float | None = None
    """Seconds that its newest tasks ran, the newest weighing most. None: none has ended yet."""
    seq: int = 0
    """Of its newest report."""
    reply: Future[ReportReply] | None = None
    """To that report, for whoever asks again."""
    acquire: int = 0
    """Number of its newest acquire."""
    retired: int = -1
    """Acquires up to this number were sent before it registered again."""
    handed: dict[tuple[str, str], float] = field(default_factory=dict)
    """(what, task) -> monotonic time when it was last handed out."""
    unprobed: frozenset[str] = frozenset()
    """Interpreters of waiting jobs here that it has not told about."""
    is_far: bool = False
    """It speaks with another plane: what is known of it is what that plane has written."""
    lock: RLock = field(default_factory=RLock)

    def handed_out(self, task_ids: Iterable[TaskId], now: float) -> None:
        """They went to it by another way. What it has confirmed is forgotten, or each report would
        cost by all the tasks that came with reports before it."""
        with self.lock:
            open_ = {key: at for key, at in self.handed.items() if self._is_open(*key)}
            new = {
                ("begin" if task_id in self.waits else "run", task_id): now for task_id in task_ids
            }
            self.handed = open_ | new

    def is_overdue(self, now: float, again: float) -> bool:
        """Whether an assignment was handed out `again` seconds ago and is not confirmed by the
        inventory: the answer that carried it was lost, or went to a copy of the call."""
        with self.lock:
            return any(
                what in ("run", "begin") and self._is_open(what, task_id) and now - at >= again
                for (what, task_id), at in self.handed.items()
            )

    def _is_open(self, what: str, task_id: str) -> bool:
        if what == "begin":
            return task_id in self.waits
        return what != "run" or task_id not in self.kept

    def hand_out(
        self, wanted: Iterable[tuple[str, str]], now: float, again: float
    ) -> set[tuple[str, str]]:
        """Those among `wanted` that are due: never handed out, or `again` seconds ago.

        They count as handed out from now on; what is not wanted any more is forgotten.
        """
        with self.lock:
            keys = set(wanted)
            due = {k for k in keys if now - self.handed.get(k, float("-inf")) >= again}
            self.handed = {k: now if k in due else self.handed[k] for k in keys}
            return due

    def heard_ends(self, message: Report) -> None:
        """How long its tasks ran is remembered."""
        for end in (news.exit for news in message.tasks):
            if end is not None and end.started_at and end.ended_at:
                ran = max(0.0, end.ended_at - end.started_at)
                self.pace = ran if self.pace is None else (3 * self.pace + ran) / 4


class Reader(Protocol):
    """Of the store, what is asked here."""

    def workers_since(self, turn: int) -> list[Worker]: ...


class Sessions:
    """The sessions of one plane. Thread-safe."""

    def __init__(self, started: float, settings: Settings) -> None:
        self.started = started
        """Monotonic time of the plane's start, or of its election since: nothing expires for one
        lease after it."""
        self._lease = settings.lease_seconds
        self._plane = settings.plane
        self._late = settings.seen_seconds + settings.tick_seconds
        """How much older than the truth the words of a far worker may be here."""
        self._turn = 0
        """Of the newest row of a worker that was learned."""
        self._has_looked = False
        self._lock = Lock()
        self._sessions: dict[WorkerId, Session] = {}

    def open(self, session: Session) -> None:
        """From now on the worker's only session."""
        self._sessions[session.worker.id] = session

    def close(self, worker_id: WorkerId) -> None:
        """It is a stranger from now on. Twice-safe."""
        self._sessions.pop(worker_id, None)

    def hears_again(self, message: Register, now: float) -> None:
        """A worker that was silent speaks. From here on, before it is written down: else what time
        does, in the same batch of writes, would find it silent still."""
        session = self._sessions.get(WorkerId(message.worker_id))
        if session is None or session.worker.heir:
            return
        is_same = succession.is_same_machine(session.worker, message)
        is_late = session.worker.nonce == message.nonce and message.seq < session.seq
        if is_same and not is_late:
            session.heard = now

    def of(self, worker_id: str, incarnation: int) -> Session | None:
        """None: not known (any more); the worker has to register. It does where it gives way to
        another, and is told so there."""
        session = self._sessions.get(WorkerId(worker_id))
        if session is None or session.worker.incarnation != incarnation or session.is_far:
            return None
        return None if session.worker.heir else session

    def learn(self, reader: Reader, clock: Clock) -> None:
        """What other planes have written of workers since the last look; nothing where there is
        no other. A worker that registers at another plane is no longer this one's."""
        if not self._plane:
            return
        with self._lock:
            now, is_first = clock.monotonic(), not self._has_looked
            self._has_looked = True
            for worker in reader.workers_since(self._turn):
                self._turn = max(self._turn, worker.turn)
                known = self._sessions.get(worker.id)
                if worker.plane != self._plane:
                    # What has changed since the last look was heard just now. Of what is there at
                    # the first look its own time tells: for placing alone, until its next word.
                    ago = max(0.0, clock.now() - worker.seen_at) if is_first else 0.0
                    self._sessions[worker.id] = _far(worker, known, now, now - ago)
                elif known is not None and known.worker.incarnation == worker.incarnation:
                    known.worker = worker

    def forget_but(self, worker_ids: frozenset[WorkerId]) -> None:
        """Far workers that are not stored any more."""
        for worker_id, session in list(self._sessions.items()):
            if session.is_far and worker_id not in worker_ids:
                self._sessions.pop(worker_id, None)

    def get(self, worker_id: WorkerId) -> Session | None:
        return self._sessions.get(worker_id)

    @property
    def count(self) -> int:
        return len(self._sessions)

    def all(self) -> list[Session]:
        """By worker id."""
        found = dict(self._sessions)  # one that is closed meanwhile is still in here
        return [found[key] for key in sorted(found)]

    def is_online(self, session: Session, now: float) -> bool:
        return now - session.heard < self._lease and not session.worker.heir

    def silent_seconds(self, worker_id: WorkerId, now: float) -> float:
        """Since its last word; of a worker that this plane has not met, since the plane began."""
        session = self._sessions.get(worker_id)
        if session is None:
            return now - self.started
        late = self._late if session.is_far else 0.0
        return now - max(session.heard + late, self.started)

    def keeps(self, worker_id: WorkerId, task_id: TaskId) -> bool:
        """Whether the worker may still have something to tell about a task."""
        session = self._sessions.get(worker_id)
        return session is not None and (task_id in session.kept or session.is_far)


def holds(message: Report) -> frozenset[TaskId]:
    """What it has and has not told the end of: until then the room is not the plane's, for one
    that was sent ahead may take it."""
    ended = {news.task_id for news in message.tasks if news.exit is not None}
    return frozenset(TaskId(held.task_id) for held in message.inventory) - ended


def waiting(inventory: Iterable[Held]) -> frozenset[TaskId]:
    """What of an inventory waits for room."""
    return frozenset(TaskId(held.task_id) for held in inventory if held.ahead)


def _far(worker: Worker, known: Session | None, now: float, heard: float) -> Session:
    capabilities = (
        known.capabilities
        if known is not None and known.worker.capabilities == worker.capabilities
        else WorkerCapabilities.from_json(worker.capabilities)
    )
    held = frozenset(map(TaskId, worker.held))
    return Session(worker, capabilities, heard, written=now, held=held, kept=held, is_far=True)
