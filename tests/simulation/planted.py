"""Faults of ours, planted one at a time to prove that the simulator would find them.

Each is a subclass of the real thing with one rule missing. Where a second defence would hide it,
the plant's faults are chosen so that the first one is needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from gpulayer.contracts.changes import Changes, TaskUpdate
from gpulayer.contracts.messages import Acquired, Register, Registered, Report, ReportReply
from gpulayer.contracts.records import Job
from gpulayer.contracts.states import LIVE_TASK_STATES, JobState, Reason, TaskState
from gpulayer.control_plane.lifecycle.jobs import end_job
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.submission import Submission
from gpulayer.worker import events as heard, instructions as say
from gpulayer.worker.agent import Agent
from gpulayer.worker.session import Session
from gpulayer.worker.slot import Slot
from gpulayer.worker.slots import Slots
from tests.simulation.seams import (
    CUTS_ALONE,
    CUTS_OFTEN,
    PLANE_ALONE,
    SLOW_ALONE,
    Bug,
    ChangedStore,
    ChangedTx,
    PlaneWithItsStore,
    drawn_with,
)
from tests.simulation.world import Parts

# --- at the plane ---------------------------------------------------------------------------


class NoFenceCheck(PlaneWithItsStore):
    """News of an attempt that is over is taken for news of the one that lives. The second
    defence, that a worker is told at its return what to forget, is off."""

    def register(self, message: Register) -> Future[Registered]:
        changed: Future[Registered] = Future()
        reply = super().register(message).result(0)
        changed.set_result(dataclasses.replace(reply, kill=(), forget=()))
        return changed

    def report(self, message: Report) -> Future[ReportReply]:
        with self.store.read() as reader:
            taken = tuple(self._taken(reader, news) for news in message.tasks)
        return super().report(dataclasses.replace(message, tasks=taken))

    def _taken(self, reader: Any, news: Any) -> Any:
        task = reader.task(news.task_id)
        if task is None or task.state in LIVE_TASK_STATES:
            return news
        for live in reader.live_tasks(job_id=task.job_id):
            return dataclasses.replace(news, task_id=live.id, fence=live.fence)
        return news


class NoIdempotency(ControlPlane):
    def submit(self, submissions: Sequence[Submission]) -> Future[list[Job]]:
        return super().submit([dataclasses.replace(s, idempotency_key=None) for s in submissions])


class UnguardedRunning(PlaneWithItsStore):
    """A start is written down without a look at whether the task has ended meanwhile."""

    def report(self, message: Report) -> Future[ReportReply]:
        def write(tx: Any) -> None:
            for news in message.tasks:
                task = tx.task(news.task_id)
                if news.exit is None and task is not None and task.state is not TaskState.RUNNING:
                    update = TaskUpdate(task.id, task.state, {"state": TaskState.RUNNING})
                    tx.apply(Changes(task_updates=(update,)))

        self.store.write(write).result(0)
        return super().report(message)


class CancelIgnoresTheTask(PlaneWithItsStore):
    """A job is cancelled at once, whatever of it runs."""

    def cancel(self, selector: str, **how: Any) -> Future[Job]:
        def end(tx: Any) -> Job:
            job: Job = tx.job(selector)
            if job.state in (JobState.SCHEDULED, JobState.RUNNING):
                tx.apply(end_job(job, JobState.CANCELLED, Reason.USER, 1.0, slug="cancelled"))
            return tx.job(selector)  # type: ignore[no-any-return]

        self.store.write(end).result(0)
        return super().cancel(selector, **how)


class OneAttemptTooMany(ControlPlane):
    def __init__(self, store: Any, *ports: Any) -> None:
        super().__init__(ChangedStore(store, _GenerousTx), *ports)


class _GenerousTx(ChangedTx):
    def job(self, job_id: Any) -> Any:
        job = self._tx.job(job_id)
        return job and dataclasses.replace(job, max_attempts=job.max_attempts + 1)


class NoFreshLease(ControlPlane):
    """After a start of the plane, whoever has not been heard yet counts as long silent."""

    def __init__(self, *ports: Any) -> None:
        super().__init__(*ports)
        self._reconciler._sessions.started = -1_000_000.0


# --- at the agent ---------------------------------------------------------------------------


class HastySlots(Slots):
    """The next attempt begins while the processes of the last one may still live."""

    def _blocked(self, slot: Slot) -> bool:
        return False


class NoLease(Agent):
    """Tasks run on, however long the plane has not been heard; nor does the supervisor know."""

    def _lapses_at(self, slot: Slot) -> float:
        return float("inf")

    def _heard(self, sent_at: float) -> list[say.Instruction]:
        return [told for told in super()._heard(sent_at) if not isinstance(told, say.Lease)]


class Hasty(NoLease):
    """Where the lease has been kept, nothing is left to wait for: both defences are off."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.slots = HastySlots()


class AnyAnswerSession(Session):
    def asked(self, number: int) -> bool:
        self._acquiring = False
        return True


class AnyAnswer(Agent):
    """An acquire's answer counts whenever it comes, however often."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._session = AnyAnswerSession(*self._session._identity)

    def _on_acquired(self, reply: Acquired, now: float) -> list[say.Instruction]:
        self._session.acquire_sent = now
        self._done.clear()
        return super()._on_acquired(reply, now)


class NoMemoryOfTheDone(Agent):
    """A task that is over may be run again by an assignment that comes late."""

    def handle(self, event: heard.Event, now: float) -> list[say.Instruction]:
        self._done.clear()
        return super().handle(event, now)


class EndBeforeLog(Agent):
    """The end of a task is told before the plane has all of its log."""

    def handle(self, event: heard.Event, now: float) -> list[say.Instruction]:
        for slot in self.slots.all:
            if slot.exit is not None:
                slot.log.wanted = False
        return super().handle(event, now)


class SaysItOnce(Agent):
    """An end whose report was lost is not told again."""

    def _session_over(self, now: float) -> None:
        told = {slot.task_id: slot.exit_sent for slot in self.slots.all}
        super()._session_over(now)
        for slot in self.slots.all:
            slot.exit_sent = told[slot.task_id] and 1e9


# --- the list -------------------------------------------------------------------------------

BUGS = (
    Bug("no fence check", Parts(NoFenceCheck, faults=drawn_with(**CUTS_ALONE), workers=(2,))),
    Bug("no idempotency", Parts(NoIdempotency)),
    Bug("unguarded running", Parts(UnguardedRunning, faults=drawn_with(double=0.3, delay=0.5))),
    Bug("cancel ignores the task", Parts(CancelIgnoresTheTask)),
    Bug("one attempt too many", Parts(OneAttemptTooMany)),
    Bug("no fresh lease", Parts(NoFreshLease, faults=drawn_with(**PLANE_ALONE), workers=(2,))),
    Bug(
        "no lease",
        Parts(agent=NoLease, faults=drawn_with(**CUTS_ALONE), workers=(2,), lasting=True),
    ),
    Bug(
        "hasty start",
        Parts(agent=Hasty, faults=drawn_with(**CUTS_OFTEN), workers=(1,), lasting=True),
    ),
    Bug("any answer", Parts(agent=AnyAnswer, faults=drawn_with(**SLOW_ALONE, double=0.3))),
    Bug("no memory of the done", Parts(agent=NoMemoryOfTheDone, faults=drawn_with(**SLOW_ALONE))),
    Bug("end before log", Parts(agent=EndBeforeLog)),
    Bug("says it once", Parts(agent=SaysItOnce, faults=drawn_with(drop=0.15))),
)
