"""Workers: who they are, which start of theirs this is, what they still have.

An incarnation is one process of an agent, told apart by its nonce. A new one takes over what its
inventory names; whatever it does not name is lost at once, without waiting for a lease: the earlier
process is dead, or its lease is over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.changes import Changes, TaskUpdate
from gpulayer.contracts.ids import Fence, TaskId, WorkerId
from gpulayer.contracts.messages import Exit, Held, Register, Registered
from gpulayer.contracts.records import Task, Worker
from gpulayer.contracts.states import LIVE_TASK_STATES, Reason, TaskState
from gpulayer.control_plane.endings import end_tasks, note_held, reconnect
from gpulayer.control_plane.envelopes import Envelopes
from gpulayer.control_plane.labels import checked, with_granted
from gpulayer.control_plane.lifecycle import succession
from gpulayer.control_plane.lifecycle.tasks import lost
from gpulayer.control_plane.ports import Ports, Tx, commit, then
from gpulayer.control_plane.sessions import Session, Sessions, waiting
from gpulayer.control_plane.wakeups import worker_topic
from gpulayer.errors import NotFoundError


class Registry:
    """Thread-safe; each method is safe to repeat."""

    def __init__(
        self,
        ports: Ports,
        sessions: Sessions,
        envelopes: Envelopes,
        dispatch: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._sessions = sessions
        self._envelopes = envelopes
        self._dispatch = dispatch

    def register(self, message: Register) -> Future[Registered]:
        """Begin or continue an incarnation. Older acquires of the worker are answered empty. Raises
        where another machine is this worker, or follows it (`lifecycle.succession`)."""
        WorkerCapabilities.from_json(message.capabilities)  # refused before it is stored
        now, instant = self._ports.clock.now(), self._ports.clock.monotonic()
        lease = self._ports.settings.lease_seconds
        self._sessions.hears_again(message, instant)

        def record(tx: Tx) -> tuple[Worker, Registered, set[str]] | Worker:
            known = tx.worker(WorkerId(message.worker_id))
            silent = self._sessions.silent_seconds(WorkerId(message.worker_id), instant)
            if known is not None and not succession.comes_in(known, message, silent, lease):
                waits = succession.announced(known, message)
                if waits != known:
                    tx.put_worker(waits)
                return waits
            if known is not None and not succession.is_same_machine(known, message):
                self._sessions.close(known.id)  # nothing more is placed there
            worker = _worker(tx, known, message, self._ports.settings.plane, now)
            topics: set[str] = set()
            kill, forget = _strangers(tx, message.inventory)
            if not self._is_old(worker, message):
                tx.put_worker(worker)
                topics = self._settle(tx, worker, message.inventory, now)
                for held in message.inventory:
                    if held.task_id in kill:
                        topics |= note_held(tx, worker.id, held, now)
            settings = self._ports.settings
            reply = Registered(
                incarnation=worker.incarnation,
                lease_seconds=settings.lease_seconds,
                report_seconds=settings.report_every(self._sessions.count),
                kill=kill,
                forget=forget,
                envelopes=tuple(sorted(tx.live_envelopes())),
            )
            return worker, reply, topics

        def meet(recorded: tuple[Worker, Registered, set[str]] | Worker) -> Registered:
            if isinstance(recorded, Worker):
                self._gives_way(recorded)
                raise succession.refusal(recorded, message)
            worker, reply, topics = recorded
            if self._is_old(worker, message):
                return reply
            self._envelopes.use(reply.envelopes, self._ports.clock.monotonic())
            self._sessions.open(self._session(worker, message))
            self._ports.wakeups.publish(*topics, worker_topic(worker.id))
            self._dispatch()
            return reply

        return then(self._ports.write(record), meet)

    def drain(self, worker_id: WorkerId, draining: bool) -> Future[Worker]:
        """Give it no new work (or again). What has begun there goes on; the rest comes back."""
        return self._change(
            worker_id, lambda worker: dataclasses.replace(worker, draining=draining)
        )

    def label(self, worker_id: WorkerId, labels: Mapping[str, str | None]) -> Future[Worker]:
        """Grant it these labels besides those that it has; None takes one away. One of the
        plane's own machine says its labels itself: what is granted lasts until it does."""

        def labelled(worker: Worker) -> Worker:
            merged = {**worker.labels, **labels}
            granted = checked({key: value for key, value in merged.items() if value is not None})
            capabilities = {**worker.capabilities, "labels": granted}
            WorkerCapabilities.from_json(capabilities)
            return dataclasses.replace(worker, labels=granted, capabilities=capabilities)

        return self._change(worker_id, labelled)

    def _change(self, worker_id: WorkerId, change: Callable[[Worker], Worker]) -> Future[Worker]:
        def record(tx: Tx) -> Worker:
            worker = tx.worker(worker_id)
            if worker is None:
                raise NotFoundError(
                    "worker-not-found",
                    f"no worker is called {worker_id!r}",
                    hint="gpulayer workers",
                )
            worker = change(worker)
            tx.put_worker(worker)
            return worker

        def tell(worker: Worker) -> Worker:
            session = self._sessions.get(worker.id)
            if session is not None:
                session.worker = change(session.worker)
                session.capabilities = WorkerCapabilities.from_json(session.worker.capabilities)
                self._ports.wakeups.publish(worker_topic(worker.id))
            self._dispatch()
            return worker

        return then(self._ports.write(record, durable=True), tell)

    def _is_old(self, worker: Worker, message: Register) -> bool:
        """Whether the same process has said something newer, so that this came late."""
        session = self._sessions.of(worker.id, worker.incarnation)
        return session is not None and message.seq < session.seq

    def _gives_way(self, worker: Worker) -> None:
        """Its next word is refused, and so is the call that is parked for it."""
        session = self._sessions.get(worker.id)
        if session is not None and session.worker.heir != worker.heir:
            session.worker = dataclasses.replace(session.worker, heir=worker.heir)
            self._ports.wakeups.publish(worker_topic(worker.id))

    def _settle(self, tx: Tx, worker: Worker, inventory: tuple[Held, ...], now: float) -> set[str]:
        has = {held.task_id: held.fence for held in inventory}
        topics: set[str] = set()
        gone: list[tuple[TaskId, Exit]] = []
        for task in tx.live_tasks(worker_id=worker.id):
            if has.get(task.id) == task.fence:
                if task.disconnected_since is not None:
                    topics |= reconnect(tx, task, now)
                if task.incarnation != worker.incarnation:
                    commit(tx, _adopted(task, worker.incarnation))
            elif task.incarnation != worker.incarnation or task.state is TaskState.RUNNING:
                gone.append((task.id, lost(Reason.WORKER_LOST, f"{worker.name} no longer has it")))
        return topics | end_tasks(tx, self._ports.ids, gone, now)

    def _session(self, worker: Worker, message: Register) -> Session:
        now = self._ports.clock.monotonic()
        earlier = self._sessions.of(worker.id, worker.incarnation)
        asked = earlier.acquire if earlier is not None else 0
        return Session(
            worker=worker,
            capabilities=WorkerCapabilities.from_json(worker.capabilities),
            heard=now,
            written=now,
            held=frozenset(TaskId(h.task_id) for h in message.inventory),
            waits=waiting(message.inventory),
            kept=frozenset(TaskId(h.task_id) for h in message.inventory),
            seq=message.seq,
            acquire=asked,
            retired=asked or -1,
        )


def _worker(tx: Tx, known: Worker | None, message: Register, plane: str, now: float) -> Worker:
    replaced: tuple[str, ...] = ()
    if known is None:
        incarnation, draining = 1, False
        rights = tx.credentials_of_worker(message.worker_id)
        granted = rights[-1].labels if rights else {}
    else:
        incarnation = known.incarnation + (known.nonce != message.nonce)
        draining, granted = known.draining, known.labels
        replaced = succession.places_behind(known, message)
    capabilities = with_granted(message.capabilities, message.target, granted)
    return Worker(
        id=WorkerId(message.worker_id),
        name=message.name,
        target=message.target,
        incarnation=incarnation,
        capabilities=capabilities,
        labels=capabilities.get("labels") or {},
        draining=draining,
        nonce=message.nonce,
        registered_at=now,
        seen_at=now,
        plane=plane,
        held=tuple(sorted(h.task_id for h in message.inventory)),
        place=message.place,
        replaced=replaced,
    )


def _adopted(task: Task, incarnation: int) -> Changes:
    return Changes(task_updates=(TaskUpdate(task.id, task.state, {"incarnation": incarnation}),))


def _strangers(tx: Tx, inventory: tuple[Held, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the worker has and nobody wants: to end, and to forget. An end that the plane may not
    have heard is neither: the worker tells it with its next report."""
    strange = [held for held in inventory if not _is_live(tx, held)]
    kill = tuple(held.task_id for held in strange if held.phase != "exited")
    ended = (held for held in strange if held.phase == "exited")
    return kill, tuple(held.task_id for held in ended if not _is_untold(tx, held))


def _is_untold(tx: Tx, held: Held) -> bool:
    """Whether its end may be one that the plane wrote, having heard nothing. Such a one has no exit
    code; one that has was told."""
    task = tx.task(TaskId(held.task_id))
    return task is not None and task.fence == held.fence and task.exit_code is None


def _is_live(tx: Tx, held: Held) -> bool:
    task = tx.task(TaskId(held.task_id))
    if task is None:
        # Nothing here knows it: the store is older than the worker's memory.
        tx.skip_fences(Fence(held.fence))
        return False
    return task.fence == held.fence and task.state in LIVE_TASK_STATES
