"""The tasks that a worker has, and what each of them needs next.

    waiting --(no other process of its element lives)--> staging --> running --> exited --> gone

A task authorises its own run, from the sending of the newest answered exchange that named it, for
one lease. A task that the plane could give out again is ended before that time is over; one that
has no attempt left runs on. `silent` tasks are nobody's: they are ended and never reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.messages import Assignment, Cancel, Exit
from gpulayer.contracts.states import Reason, TaskState
from gpulayer.worker.events import TaskStarted
from gpulayer.worker.instructions import Collect, End, Instruction, LookAtRun, Run
from gpulayer.worker.slot import Slot, assigned, keeping

LOOK_SECONDS = 0.5
"""Into a run it is looked at for the first time: most have ended by then. The next times when it is
twice as old, since its loop soon begins no other element."""
_FIRMNESS = {"int": 0, "term": 1, "kill": 2}


class Slots:
    """A plain container in order of arrival, and the moves of its tasks. No clock, no I/O."""

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        self.all: tuple[Slot, ...] = ()
        """A new one with every task that comes or goes: who walks it sees those of one moment."""

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, task_id: str) -> Slot | None:
        return self._slots.get(task_id)

    def add(self, slot: Slot) -> None:
        self._slots[slot.task_id] = slot
        self.all = tuple(self._slots.values())

    def give(self, assignment: Assignment, sent_at: float) -> None:
        """It may come twice; the second time with the word that there is room."""
        known = self.get(assignment.task_id)
        if known is None:
            self.add(assigned(assignment, sent_at))
        else:
            known.ahead = known.ahead and assignment.ahead

    def remove(self, slot: Slot) -> None:
        del self._slots[slot.task_id]
        self.all = tuple(self._slots.values())

    @property
    def has_followers(self) -> bool:
        """Whether more tasks wait for the room of others than run, so that no room stays empty
        while an end is on its way."""
        surplus = 0
        for slot in self.all:
            if slot.phase == "waiting":
                surplus += slot.ahead
            elif slot.phase != "exited":
                surplus -= 1
        return surplus > 0

    def take_room(self, now: float) -> None:
        """The oldest task that was sent ahead takes the room of one of its size that has ended,
        while the plane has not heard of that: from then on the room is the plane's to give."""
        left = [slot for slot in self.all if slot.ended]
        for slot in left:
            slot.ended_seen = min(slot.ended_seen, now)
        left = [slot for slot in left if slot.leaves]
        for slot in self.all if left else ():
            if not slot.ahead or slot.phase != "waiting":
                continue
            for other in left:
                if other.has_room and other.size == slot.size:
                    other.has_room = slot.ahead = False
                    break

    def startable(self) -> list[Instruction]:
        """Begin what waits, except where another process of the same element may live."""
        out: list[Instruction] = []
        for slot in self.all:
            if slot.phase != "waiting" or slot.ahead:
                continue
            if slot.assignment is not None and not self._blocked(slot):
                slot.phase = "staging"
                slot.run += 1
                slot.log.tailing = 0
                out.append(Run(slot.assignment, slot.run))
        return out

    def looks_at(self) -> float:
        """When a run is next looked at."""
        times = (slot.looks_at for slot in self.all if slot.phase == "running")
        return min(times, default=float("inf"))

    def looks(self, now: float) -> list[Instruction]:
        """At the runs that go on for so long that what they have done is worth a word."""
        out: list[Instruction] = []
        for slot in self.all:
            if slot.phase == "running" and now >= slot.looks_at:
                slot.looks_at = now + max(LOOK_SECONDS, now - slot.started_seen)
                out.append(LookAtRun(slot.task_id, slot.note))
        return out

    def leased(self) -> list[Slot]:
        """What runs and would be given out again. (Others would be while their start has not been
        acknowledged; that moment is not worth a word.)"""
        return [
            slot
            for slot in self.all
            if slot.phase == "running" and slot.may_lapse and slot.note.get("again", True)
        ]

    def order(self, slot: Slot, order: Cancel) -> list[Instruction]:
        """Ask for the end of a task; a weaker or equal wish than the last one changes nothing."""
        if slot.order is not None and _FIRMNESS[order.mode] <= _FIRMNESS[slot.order.mode]:
            return []
        slot.order = order
        if slot.phase == "waiting":
            slot.phase = "exited"
            slot.log.size = 0
            slot.exit = never_started(slot)
        return self.ending(slot)

    def retract(self, slot: Slot) -> None:
        """Hand it back, if nothing has been done for it."""
        if slot.phase == "waiting":
            slot.phase = "exited"
            slot.log.size = 0
            slot.exit = Exit(TaskState.LOST, Reason.RETRACTED, "handed back before it began")

    def disown(self, slot: Slot) -> list[Instruction]:
        """Its fence is stale: end it at once and say nothing."""
        slot.silent = True
        return self.order(slot, Cancel(slot.task_id, "kill", 0.0))

    def lapse(self, slot: Slot) -> list[Instruction]:
        """Its authority is over, and the plane may give its work to somebody else."""
        slot.lapsed = True
        return self.order(slot, Cancel(slot.task_id, "kill", 0.0))

    def ending(self, slot: Slot) -> list[Instruction]:
        """The order to end, for a supervisor that may not have it yet."""
        if slot.order is None or slot.phase != "running":
            return []
        return [End(slot.task_id, slot.order.mode, slot.order.grace_seconds)]

    def started(self, slot: Slot, told: TaskStarted | None, now: float) -> list[Instruction]:
        """None: only that it runs is known."""
        if slot.phase != "staging":
            return []
        slot.phase = "running"
        slot.started_seen = now
        if slot.is_run:
            slot.looks_at = now + LOOK_SECONDS
        if told is not None:
            slot.started_at, slot.rendezvous = told.at, told.rendezvous
            slot.preparation, slot.world = told.preparation, told.world
        return [*keeping(slot), *self.ending(slot)]

    def refused(self, slot: Slot, ending: Exit) -> None:
        if slot.phase == "staging":
            slot.phase = "exited"
            slot.log.size = slot.log.read
            slot.exit = never_started(slot) if slot.order is not None else ending

    def tree_ended(self, slot: Slot, raw: Mapping[str, Any]) -> list[Instruction]:
        """Nothing of its processes is left, and all of its log has been read."""
        if slot.phase != "running":
            return []
        slot.phase = "exited"
        slot.log.size = slot.log.read
        return [Collect(slot.task_id, slot.fence, raw, slot.note, slot.indices)]

    def collected(self, slot: Slot, ending: Exit) -> None:
        if slot.exit is None:
            slot.exit = _as_lost(slot, ending) if ending.outcome == TaskState.CANCELLED else ending

    def found(self, slot: Slot, listed: bool, now: float) -> list[Instruction]:
        """A supervisor has said whether it has the task."""
        if slot.phase == "staging":
            if listed:
                return self.started(slot, None, now)
            slot.phase = "waiting"
        elif slot.phase == "running" and not listed:
            return self._watcher_lost(slot)
        return self.ending(slot)

    def _blocked(self, slot: Slot) -> bool:
        """Other nodes of one gang may live beside it."""
        gang = slot.note.get("gang")
        return any(
            other.lives
            and other.job_id == slot.job_id
            and other.index <= slot.last
            and slot.index <= other.last
            and (gang is None or other.note.get("gang") != gang)
            for other in self._slots.values()
        )

    def _watcher_lost(self, slot: Slot) -> list[Instruction]:
        """Of a run it is still known what has ended."""
        why = "the process that watched the job ended while the job ran"
        slot.phase = "exited"
        slot.log.size = slot.log.read
        lost: dict[str, Any] = {
            "outcome": TaskState.LOST,
            "reason": Reason.SUPERVISOR_LOST,
            "message": why,
            "started_at": slot.started_at,
        }
        if slot.is_run:
            return [Collect(slot.task_id, slot.fence, lost, slot.note, slot.indices)]
        slot.exit = Exit(**lost)
        return []


def never_started(slot: Slot) -> Exit:
    """The end of a task that was taken back before a process of it existed."""
    if slot.lapsed:
        return Exit(TaskState.LOST, Reason.RETRACTED, "the plane was away before it could begin")
    return Exit(TaskState.CANCELLED, Reason.USER, "cancelled before it began")


def _as_lost(slot: Slot, ending: Exit) -> Exit:
    """What was ended although nobody had asked for it: the plane may give it out again."""
    if slot.lapsed or ending.reason == Reason.WORKER_LOST:  # the latter by the supervisor
        reason = Reason.WORKER_LOST
        why = "the plane could not be reached, so the task was ended before it could be given out"
        why += " again"
    elif ending.reason == Reason.SHUTDOWN:
        reason = Reason.SUPERVISOR_LOST
        why = "the process that watched the job was told to end, and ended the job"
    else:
        return ending
    return Exit(
        TaskState.LOST,
        reason,
        why,
        started_at=ending.started_at,
        ended_at=ending.ended_at,
        usage=ending.usage,
        elements=ending.elements,
    )
