"""Faults of ours between several machines, planted as those of `planted` are."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Future
from typing import Any

from gpulayer.contracts.changes import Changes
from gpulayer.contracts.messages import Assignment, Exit, Registered, Report, ReportReply
from gpulayer.contracts.states import Reason, TaskState
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.worker import instructions as say
from gpulayer.worker.agent import Agent
from gpulayer.worker.slot import Slot
from gpulayer.worker.slots import Slots
from tests.simulation.seams import (
    CUTS_ALONE,
    CUTS_OFTEN,
    NO_CRASHES,
    SLOW_ALONE,
    STOPS_ALONE,
    Bug,
    ChangedStore,
    ChangedTx,
    PlaneWithItsStore,
    drawn_with,
)
from tests.simulation.world import Parts

# --- leases ---------------------------------------------------------------------------------


class LeaseFromTheReply(Agent):
    """Authority counts from the moment at which the answer came, not from the sending."""

    def _on_report_answer(self, reply: ReportReply, now: float) -> list[say.Instruction]:
        self._session.report_sent = now
        return super()._on_report_answer(reply, now)

    def _on_registered(self, reply: Registered, now: float) -> list[say.Instruction]:
        self._session.register_sent = now
        return super()._on_registered(reply, now)


class AcquireRenews(Agent):
    """The sending of an acquire counts as a word that the plane has heard."""

    def _given(self, assignments: tuple[Assignment, ...], sent: float, now: float) -> None:
        heard, self._last_heard = self._last_heard, float("inf")
        super()._given(assignments, sent, now)
        self._last_heard = heard


class HastyPlane(ControlPlane):
    """What a silent worker has is given out again before its lease is over."""

    def __init__(self, *ports: Any) -> None:
        super().__init__(*ports)
        half = self.settings.lease_seconds / 2
        self._reconciler._allowed_silence = lambda task, job: half  # type: ignore[method-assign]


class LeaseByTheWall(ControlPlane):
    """Silence is measured on the wall clock, which may be set."""

    def __init__(self, store: Any, clock: Any, *ports: Any) -> None:
        super().__init__(store, _WallClock(clock), *ports)


class _WallClock:
    def __init__(self, clock: Any) -> None:
        self.now = self.monotonic = self.boottime = clock.now


class NobodyElseHoldsTheLease(Agent):
    """The supervisor is not told how long tasks may run, should the agent be stopped."""

    def _heard(self, sent_at: float) -> list[say.Instruction]:
        return [told for told in super()._heard(sent_at) if not isinstance(told, say.Lease)]


# --- who speaks, and when -------------------------------------------------------------------


class AnyIncarnation(ControlPlane):
    """A late word of an agent that has ended counts like one of its successor."""

    def report(self, message: Report) -> Future[ReportReply]:
        session = self._sessions.get(message.worker_id)  # type: ignore[arg-type]
        if session is not None:
            now = session.worker.incarnation
            message = dataclasses.replace(message, incarnation=now)
        return super().report(message)


class OldLogsGrow(PlaneWithItsStore):
    """The log of an attempt takes more after a later one has begun."""

    def __init__(self, store: Any, clock: Any, ids: Any, wakeups: Any, logs: Any, *more: Any):
        super().__init__(store, clock, ids, wakeups, logs, *more)
        self._log_folder = logs

    def append_log(self, task_id: str, fence: int, offset: int, data: bytes) -> Future[int]:
        with self.store.read() as reader:
            task = reader.task(task_id)
        if task is not None:
            self._log_folder.append(task.job_id, task_id, offset, data)
        return super().append_log(task_id, fence, offset, data)


class SentAwayForNothing(ControlPlane):
    """What a revoked worker ran is still counted as its own."""

    def revoke_worker(self, worker_id: Any, by: Any) -> Future[list[str]]:
        answer: Future[list[str]] = Future()
        answer.set_result([])
        return answer


class AnyOrder(ControlPlane):
    """A report counts whenever it comes, and however often."""

    def report(self, message: Report) -> Future[ReportReply]:
        session = self._sessions.of(message.worker_id, message.incarnation)
        if session is not None:
            session.seq, session.reply = message.seq - 1, None
        return super().report(message)


class BesideTheOlder(ControlPlane):
    """A machine with a copy of a worker's disk comes in at once, and the older one's tasks are
    given out again while it has not heard of that."""

    def __init__(self, *ports: Any) -> None:
        super().__init__(*ports)
        self._sessions.silent_seconds = lambda *_: 1e9  # type: ignore[method-assign]
        self._reconciler._overdue = lambda *_: iter(())  # type: ignore[method-assign]


class MarkedForEver(ControlPlane):
    """`disconnected` is not taken off a task whose worker is back."""

    def __init__(self, store: Any, *ports: Any) -> None:
        super().__init__(ChangedStore(store, _KeepsTheMark), *ports)


class _KeepsTheMark(ChangedTx):
    def apply(self, changes: Changes, **how: Any) -> Any:
        kept = tuple(
            update
            for update in changes.task_updates
            if update.values != {"disconnected_since": None}
        )
        return self._tx.apply(dataclasses.replace(changes, task_updates=kept), **how)


# --- what is given to whom ------------------------------------------------------------------


class PartOfAGang(ControlPlane):
    """Of a gang's nodes all but the last are placed."""

    def __init__(self, store: Any, *ports: Any) -> None:
        super().__init__(ChangedStore(store, _WithoutTheLast), *ports)


class _WithoutTheLast(ChangedTx):
    def apply(self, changes: Changes, **how: Any) -> Any:
        if len(changes.tasks) > 1:
            changes = dataclasses.replace(changes, tasks=changes.tasks[:-1])
        return self._tx.apply(changes, **how)


class DrainedLikeOthers(ControlPlane):
    """A worker that drains is given new work."""

    def __init__(self, *ports: Any) -> None:
        super().__init__(*ports)
        views = self._dispatcher._snapshots.views

        def not_draining(*seen: Any) -> Any:
            return [dataclasses.replace(view, draining=False) for view in views(*seen)]

        self._dispatcher._snapshots.views = not_draining  # type: ignore[method-assign]


class HandsBackWhatRuns(Slots):
    """A worker that drains gives back a task that has begun, as if it had not."""

    def retract(self, slot: Slot) -> None:
        if slot.phase in ("staging", "running"):
            slot.exit = Exit(TaskState.LOST, Reason.RETRACTED, "handed back before it began")
            slot.phase, slot.log.size = "exited", slot.log.read


class HandsBack(Agent):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.slots = HandsBackWhatRuns()


BUGS_AFAR = (
    Bug(
        "lease from the reply",
        Parts(
            agent=LeaseFromTheReply,
            faults=drawn_with(**CUTS_OFTEN | {"stopped": 10.0, "double": 0.0}),
            workers=(2,),
        ),
    ),
    Bug(
        "an acquire renews",
        Parts(agent=AcquireRenews, faults=drawn_with(**CUTS_ALONE), workers=(2,)),
    ),
    Bug(
        "hasty plane",
        Parts(HastyPlane, faults=drawn_with(**CUTS_ALONE), workers=(2,), lasting=True),
    ),
    Bug("lease by the wall", Parts(LeaseByTheWall, faults=drawn_with(wall_jump=10.0))),
    Bug(
        "nobody else holds the lease",
        Parts(
            agent=NobodyElseHoldsTheLease,
            faults=drawn_with(**STOPS_ALONE),
            workers=(2,),
            lasting=True,
        ),
    ),
    Bug(
        "any incarnation",
        Parts(AnyIncarnation, faults=drawn_with(**SLOW_ALONE | {"agent_crash": 10.0})),
    ),
    Bug(
        "beside the older one",
        Parts(
            BesideTheOlder,
            faults=drawn_with(**NO_CRASHES | {"copied": 10.0, "cut": 0.0, "delay": 0.5}),
        ),
    ),
    Bug(
        "old logs grow",
        Parts(OldLogsGrow, faults=drawn_with(**CUTS_OFTEN), workers=(2,)),
    ),
    Bug(
        "sent away for nothing",
        Parts(SentAwayForNothing, faults=drawn_with(**NO_CRASHES | {"revoked": 15.0})),
    ),
    Bug("any order", Parts(AnyOrder, faults=drawn_with(**SLOW_ALONE, double=0.3))),
    Bug("marked for ever", Parts(MarkedForEver, faults=drawn_with(**CUTS_ALONE))),
    Bug("part of a gang", Parts(PartOfAGang, workers=(3,))),
    Bug("drained like others", Parts(DrainedLikeOthers, faults=drawn_with(drained=10.0))),
    Bug(
        "hands back what runs",
        Parts(agent=HandsBack, faults=drawn_with(**NO_CRASHES | {"drained": 5.0}), workers=(2,)),
    ),
)
