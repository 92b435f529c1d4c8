"""One task that a worker has: what is known of it, and what may be asked of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpulayer.contracts.attempts import attempts_of
from gpulayer.contracts.messages import Assignment, Cancel, Exit, Held, Preparation
from gpulayer.worker.events import Attached
from gpulayer.worker.instructions import Instruction, KeepCheckpoints
from gpulayer.worker.log_tail import LogTail


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
    size: tuple[float, float] | None = None
    """Cores and GB that it holds. None: devices as well, or it is not known."""
    ahead: bool = False
    """It has no room yet."""
    has_room: bool = True
    """Until another took it over, or its end was told."""
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
    world: str = ""
    """The same: what it runs in, by digest."""
    order: Cancel | None = None
    """The firmest request to end it."""
    silent: bool = False
    lapsed: bool = False
    """Ended because its authority ran out."""
    started_at: float | None = None
    started_seen: float = 0.0
    start_reported: bool = False
    looks_at: float = float("inf")
    """Of a run: when it is next looked at what it has done."""
    done: tuple[Mapping[str, Any], ...] = ()
    """Elements of it that have succeeded, as far as was looked at."""
    done_reported: int = 0
    """Of these, how many the plane knows of."""
    exit: Exit | None = None
    ended_seen: float = float("inf")
    """When its end was ready to be told."""
    exit_sent: float | None = None
    """When a report of this session last carried the exit; None: none did."""

    @property
    def is_run(self) -> bool:
        """Whether it runs many elements, one after another."""
        return "last" in self.note

    @property
    def last(self) -> int:
        """Index of its last element."""
        return int(self.note.get("last", self.index))

    @property
    def indices(self) -> range:
        """Among which those of its elements are."""
        return range(self.index, self.last + 1)

    @property
    def lives(self) -> bool:
        """Whether a process of it may exist."""
        return self.phase in ("staging", "running")

    @property
    def ended(self) -> bool:
        """Whether its end is ready to be reported."""
        return self.exit is not None and self.log.delivered

    @property
    def leaves(self) -> bool:
        """Whether one that was sent ahead may take its room."""
        return self.ended and self.has_room and not (self.ahead or self.silent)

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
        return Held(self.task_id, self.fence, phase, self.ahead)


def note_of(assignment: Assignment) -> dict[str, Any]:
    """What a later agent must know about the task; the supervisor keeps it."""
    most_attempts, causes = attempts_of(assignment.spec)
    again = assignment.attempt < most_attempts and "worker_lost" in causes
    workload: Mapping[str, Any] = assignment.spec.get("workload") or {}
    if assignment.run is not None:  # what it has not begun goes out again in any case
        again, own = True, {"first": assignment.index, "last": assignment.run["last"]}
    else:
        own = {}
    return {
        **own,
        "again": again,
        "kind": workload.get("kind", "command"),
        "secrets": bool(assignment.spec.get("secrets")),
        "outputs": list(assignment.spec.get("outputs") or ()),
        "folder": own_folder(assignment),
        **({"checkpoint": kept} if (kept := _keeps(assignment)) else {}),
        **({"gang": assignment.gang["id"]} if assignment.gang else {}),
        **({"image": True} if assignment.spec.get("image") else {}),
    }


def _keeps(assignment: Assignment) -> Any:
    """The folder that it keeps, as its job says. Of a distributed job the first node does."""
    return assignment.spec.get("checkpoint") if assignment.rank == 0 else None


def size_of(assignment: Assignment) -> tuple[float, float] | None:
    """What the plane counts for a task without devices; see `scheduler.shapes`."""
    if assignment.gpus or assignment.gang:
        return None
    resources: Mapping[str, Any] = assignment.spec.get("resources") or {}
    return float(resources.get("cpu_cores") or 1.0), float(resources.get("memory_gb") or 0.0)


def preparation_in(note: Mapping[str, Any]) -> Preparation | None:
    told = note.get("preparation")
    return Preparation.from_json(told) if told else None


def own_folder(assignment: Assignment) -> str:
    """Where it runs, if that is a folder of its user's own; nothing for a workspace of ours."""
    workload: Mapping[str, Any] = assignment.spec.get("workload") or {}
    if assignment.envelope_id is None or workload.get("source"):
        return ""
    return str(assignment.origin.get("cwd") or "")


def assigned(assignment: Assignment, sent_at: float) -> Slot:
    return Slot(
        assignment.task_id,
        assignment.fence,
        assignment.job_id,
        assignment.index,
        note_of(assignment),
        sent_at,
        assignment,
        size_of(assignment),
        assignment.ahead,
    )


def attached(task: Attached, authorised_at: float) -> Slot:
    """A task that an earlier agent started. How much of its log the plane has is not known."""
    slot = Slot(task.task_id, task.fence, task.job_id, task.index, task.note, authorised_at)
    slot.phase = "running"
    slot.rendezvous = task.note.get("rendezvous")
    slot.preparation, slot.world = preparation_in(task.note), str(task.note.get("world") or "")
    slot.log.in_step = False
    if slot.is_run:
        slot.looks_at = 0.0
    return slot


def keeping(slot: Slot) -> list[Instruction]:
    """What is to be done for its checkpoints from its start on."""
    if "checkpoint" not in slot.note:
        return []
    return [KeepCheckpoints(slot.task_id, slot.fence, slot.note, slot.assignment is None)]
