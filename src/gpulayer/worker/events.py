"""What the agent hears. Each is one fact, brought by the driver or by the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpulayer.contracts.messages import Acquired, Exit, Preparation, Registered, ReportReply


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; `Agent.deadline` says when one is due."""


@dataclass(frozen=True, slots=True)
class Attached:
    """One task as the supervisor lists it."""

    task_id: str
    fence: int
    job_id: str
    index: int
    note: Mapping[str, Any] = field(default_factory=dict)
    """What the agent that started it wrote down; see `slots.note_of`."""


@dataclass(frozen=True, slots=True)
class SupervisorListed:
    """A supervisor is connected, and this is all that it has."""

    tasks: tuple[Attached, ...] = ()


@dataclass(frozen=True, slots=True)
class SupervisorLost:
    """The connection to the supervisor ended. A list follows once there is one again."""


@dataclass(frozen=True, slots=True)
class RegisterAnswered:
    session: int
    reply: Registered


@dataclass(frozen=True, slots=True)
class ReportAnswered:
    session: int
    reply: ReportReply


@dataclass(frozen=True, slots=True)
class AcquireAnswered:
    session: int
    number: int
    reply: Acquired


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A call of this session got no answer: the plane is gone, or the reply was lost."""

    session: int


@dataclass(frozen=True, slots=True)
class ReportRefused:
    """The plane understood the report of this session and will never take it."""

    session: int
    why: str


@dataclass(frozen=True, slots=True)
class TaskEntered:
    """Its preparation has come to a phase that may take long."""

    task_id: str
    run: int
    phase: str


@dataclass(frozen=True, slots=True)
class TaskStarted:
    task_id: str
    run: int
    """Number of the `Run` that it answers; one that was asked for again counts no more."""
    at: float
    """Unix time of the workload's exec, for people."""
    rendezvous: Mapping[str, Any] | None = None
    """Of node 0 of a gang: where the others find it."""
    preparation: Preparation | None = None
    """Where there was something to prepare."""
    world: str = ""
    """Digest of what says where it runs; see `worlds`."""


@dataclass(frozen=True, slots=True)
class TaskRefused:
    """It never began: a step before the workload failed, or the start itself."""

    task_id: str
    run: int
    exit: Exit


@dataclass(frozen=True, slots=True)
class LogRead:
    """Bytes of a segment from `offset`. `exit` comes with the last of them, once nothing of the
    task's tree is left."""

    task_id: str
    offset: int
    data: bytes
    exit: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LogGone:
    """The supervisor has no such task: there is nothing more to read."""

    task_id: str


@dataclass(frozen=True, slots=True)
class LogShipped:
    """The plane has `size` bytes. None: it wants no more of this task's log."""

    session: int
    task_id: str
    number: int
    size: int | None


@dataclass(frozen=True, slots=True)
class ElementsDone:
    """All that have succeeded so far of a run that goes on, in the order of their ends."""

    task_id: str
    elements: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class TaskCollected:
    """The end of a task with everything it left: outputs stored, result read."""

    task_id: str
    exit: Exit


@dataclass(frozen=True, slots=True)
class CapabilitiesChanged:
    capabilities: Mapping[str, Any]


OfTask = TaskEntered | TaskStarted | TaskRefused | LogRead | LogGone | ElementsDone | TaskCollected

Event = (
    Tick
    | SupervisorListed
    | SupervisorLost
    | RegisterAnswered
    | ReportAnswered
    | AcquireAnswered
    | CallFailed
    | ReportRefused
    | LogShipped
    | OfTask
    | CapabilitiesChanged
)
