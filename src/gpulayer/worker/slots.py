"""The tasks that a worker has, and what each of them needs next.

    waiting --(no other process of its element lives)--> staging --> running --> exited --> gone

A task authorises its own run, from the sending of the newest answered exchange that named it, for
one lease. A task that the plane could give out again is ended before that time is over; one that
has no attempt left runs on. `silent` tasks are nobody's: they are ended and never reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpulayer.contracts.messages import Assignment, Cancel, Exit, Held, Preparation
from gpulayer.contracts.states import Reason, TaskState
from gpulayer.worker.events import Attached
from gpulayer.worker.instructions import Collect, End, Instruction, KeepCheckpoints, Run
from gpulayer.worker.log_tail import LogTail

_FIRMNESS = {"int": 0, "term": 1, "kill": 2}


@dataclass(slots=True)
class Slot:
    """One held task."""

    task_id: str
    fence: int
    job_id: str
    index: int
    note: Mapping[str, Any]
    authorised_at: float
    """Boot time of the sending that its authority counts from."""
    assignment: Assignment | None = None
    """None: found at the supervisor by a later agent."""
    phase: str = "waiting"
    run: int = 0
    """Number of the newest `Run` of it."""
    log: LogTail = field(default_factory=LogTail)
    rendezvous: Mapping[str, Any] | None = None
    """Of node 0 of a gang: where the others find it. Told with its start."""
    entered: str = ""
    """The phase of its preparation that takes long; told while it lasts."""
    entered_reported: str = ""
    preparation: Preparation | None = None
    """What its preparation took. Told with its start."""
    order: Cancel | None = None
    """The firmest request to end it."""
    silent: bool = False
    lapsed: bool = False
    """Ended because its authority ran out."""
    started_at: float | None = None
    started_seen: float = 0.0
    start_reported: bool = False
    exit: Exit | None = None
    exit_sent: float | None = None
    """When a report of this session last carried the exit; None: none did."""

    @property
    def lives(self) -> bool:
        """Whether a process of it may exist."""
        return self.phase in ("staging", "running")

    @property
    def ended(self) -> bool:
        """Whether its end is ready to be reported."""
        return self.exit is not None and self.log.delivered

    @property
    def may_lapse(self) -> bool:
        """Whether it must be ended with its authority: the plane would give it out again. So it
        does with whatever it has not heard to have begun, and with what has attempts left."""
        if self.phase == "exited" or self.lapsed or self.silent:
            return False
        return not self.start_reported or bool(self.note.get("again", True))

    def line(self) -> Held:
        """Its line of the inventory."""
        phase = "staging" if self.phase == "waiting" else self.phase
        return Held(self.task_id, self.fence, phase)


def note_of(assignment: Assignment) -> dict[str, Any]:
    """What a later agent must know about the task; the supervisor keeps it."""
    retry: Mapping[str, Any] = assignment.spec.get("retry") or {}
    again = assignment.attempt < int(retry.get("max_attempts", 1)) and "worker_lost" in (
        retry.get("retry_on", ("worker_lost",))
    )
    workload: Mapping[str, Any] = assignment.spec.get("workload") or {}
    return {
        "again": again,
        "kind": workload.get("kind", "command"),
        "secrets": bool(assignment.spec.get("secrets")),
        "outputs": list(assignment.spec.get("outputs") or ()),
        "folder": own_folder(assignment),
        **({"checkpoint": kept} if (kept := assignment.spec.get("checkpoint")) else {}),
        **({"gang": assignment.gang["id"]} if assignment.gang else {}),
        **({"image": True} if assignment.spec.get("image") else {}),
    }


def own_folder(assignment: Assignment) -> str:
    """Where it runs, if that is a folder of its user's own; nothing for a workspace of ours."""
    workload: Mapping[str, Any] = assignment.spec.get("workload") or {}
    if assignment.envelope_id is None or workload.get("source"):
        return ""
    return str(assignment.origin.get("cwd") or "")


def preparation_in(note: Mapping[str, Any]) -> Preparation | None:
    told = note.get("preparation")
    return Preparation.from_json(told) if told else None


def assigned(assignment: Assignment, sent_at: float) -> Slot:
    return Slot(
        assignment.task_id,
        assignment.fence,
        assignment.job_id,
        assignment.index,
        note_of(assignment),
        sent_at,
        assignment,
    )


def attached(task: Attached, authorised_at: float) -> Slot:
    """A task that an earlier agent started. How much of its log the plane has is not known."""
    slot = Slot(task.task_id, task.fence, task.job_id, task.index, task.note, authorised_at)
    slot.phase = "running"
    slot.rendezvous = task.note.get("rendezvous")
    slot.preparation = preparation_in(task.note)
    slot.log.in_step = False
    return slot


def keeping(slot: Slot) -> list[Instruction]:
    """What is to be done for its checkpoints from its start on."""
    if "checkpoint" not in slot.note:
        return []
    return [KeepCheckpoints(slot.task_id, slot.fence, slot.note, slot.assignment is None)]


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

    def remove(self, slot: Slot) -> None:
        del self._slots[slot.task_id]
        self.all = tuple(self._slots.values())

    def startable(self) -> list[Instruction]:
        """Begin what waits, except where another process of the same element may live."""
        out: list[Instruction] = []
        for slot in self.all:
            if slot.phase == "waiting" and slot.assignment is not None and not self._blocked(slot):
                slot.phase = "staging"
                slot.run += 1
                slot.log.tailing = 0
                out.append(Run(slot.assignment, slot.run))
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

    def started(
        self,
        slot: Slot,
        at: float | None,
        now: float,
        rendezvous: Mapping[str, Any] | None = None,
        preparation: Preparation | None = None,
    ) -> list[Instruction]:
        if slot.phase != "staging":
            return []
        slot.phase = "running"
        slot.rendezvous, slot.preparation = rendezvous, preparation
        slot.started_at, slot.started_seen = at, now
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
        return [Collect(slot.task_id, slot.fence, raw, slot.note)]

    def collected(self, slot: Slot, ending: Exit) -> None:
        if slot.exit is None:
            is_over = slot.lapsed or ending.reason == Reason.WORKER_LOST  # by the supervisor
            lapsed = is_over and ending.outcome == TaskState.CANCELLED
            slot.exit = _lapsed(ending) if lapsed else ending

    def found(self, slot: Slot, listed: bool, now: float) -> list[Instruction]:
        """A supervisor has said whether it has the task."""
        if slot.phase == "staging":
            if listed:
                return self.started(slot, None, now)
            slot.phase = "waiting"
        elif slot.phase == "running" and not listed:
            self._watcher_lost(slot)
        return self.ending(slot)

    def _blocked(self, slot: Slot) -> bool:
        """Other nodes of one gang may live beside it."""
        gang = slot.note.get("gang")
        return any(
            other.lives
            and (other.job_id, other.index) == (slot.job_id, slot.index)
            and (gang is None or other.note.get("gang") != gang)
            for other in self._slots.values()
        )

    def _watcher_lost(self, slot: Slot) -> None:
        slot.phase = "exited"
        slot.log.size = slot.log.read
        slot.exit = Exit(
            TaskState.LOST,
            Reason.SUPERVISOR_LOST,
            "the process that watched the job ended while the job ran",
            started_at=slot.started_at,
        )


def never_started(slot: Slot) -> Exit:
    """The end of a task that was taken back before a process of it existed."""
    if slot.lapsed:
        return Exit(TaskState.LOST, Reason.RETRACTED, "the plane was away before it could begin")
    return Exit(TaskState.CANCELLED, Reason.USER, "cancelled before it began")


def _lapsed(ending: Exit) -> Exit:
    return Exit(
        TaskState.LOST,
        Reason.WORKER_LOST,
        "the plane could not be reached, so the task was ended before it could be given out again",
        started_at=ending.started_at,
        ended_at=ending.ended_at,
        usage=ending.usage,
    )
