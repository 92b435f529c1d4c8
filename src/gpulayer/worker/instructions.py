"""What the agent wants done. Whoever carries one out brings back the event that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpulayer.contracts.messages import (
    Acquire,
    Assignment,
    Errand,
    Register,
    Report,
    StreamOrder,
)


@dataclass(frozen=True, slots=True)
class SendRegister:
    """Answered by `RegisterAnswered` or `CallFailed` with the same session."""

    session: int
    message: Register


@dataclass(frozen=True, slots=True)
class SendReport:
    """Answered by `ReportAnswered`, `ReportRefused` or `CallFailed`. Never two at once."""

    session: int
    message: Report


@dataclass(frozen=True, slots=True)
class SendAcquire:
    """Answered by `AcquireAnswered` or `CallFailed`."""

    session: int
    number: int
    message: Acquire


@dataclass(frozen=True, slots=True)
class Remember:
    """Keep this boot time for an agent to come, which would else not know how old its leases are:
    the sending of an answered exchange, the newest or one a moment older."""

    at: float


@dataclass(frozen=True, slots=True)
class Lease:
    """Tell the supervisor how long which tasks may run without another word: for the case that
    this agent is stopped or dead by then. All others run on."""

    until: Mapping[str, float]
    """Task id -> boot time."""


@dataclass(frozen=True, slots=True)
class Run:
    """Prepare and start a task: `TaskStarted`, `TaskRefused`, or nothing when the supervisor went
    away meanwhile. The same task may be asked for again after `SupervisorListed`. One that is
    started is also read from its beginning, as by a `Tail` with offset 0."""

    assignment: Assignment
    number: int


@dataclass(frozen=True, slots=True)
class Tail:
    """Read a task's segment: `LogRead` or `LogGone`. A newer one replaces the parked one."""

    task_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class Ship:
    """Answered by `LogShipped` or `CallFailed`. Never two at once for one task."""

    session: int
    task_id: str
    fence: int
    number: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class End:
    """Ask the supervisor to end a task's tree. The end itself comes by `LogRead`."""

    task_id: str
    mode: str
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Collect:
    """Gather what an ended task left: `TaskCollected`."""

    task_id: str
    fence: int
    exit: Mapping[str, Any]
    """As the supervisor gave it."""
    note: Mapping[str, Any]
    indices: range = range(1)
    """Among which those of its elements are."""


@dataclass(frozen=True, slots=True)
class LookAtRun:
    """See what a run that goes on has done: `ElementsDone`, if anything."""

    task_id: str
    note: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeepCheckpoints:
    """Keep the checkpoint folder of a task that runs, until its `Collect`. May come twice.
    `at_once`: an earlier agent did, and nobody knows when."""

    task_id: str
    fence: int
    note: Mapping[str, Any]
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Forget:
    """Its end is recorded, or nobody wants it: remove all that is left of it here."""

    task_id: str


@dataclass(frozen=True, slots=True)
class KeepEnvelopes:
    """Drop all others."""

    envelope_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DropEnvelopes:
    envelope_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """Look at interpreters that waiting jobs would use: `CapabilitiesChanged`."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JoinStream:
    """Somebody comes into a running task. What comes of it is theirs, and the agent's no more."""

    order: StreamOrder


@dataclass(frozen=True, slots=True)
class DoErrand:
    """Do it, unless it is being done, and tell the plane what came of it."""

    errand: Errand
    worker_id: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class StartPlane:
    """The plane went away without a word and has not come back."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Tell the supervisor to quit, then end."""


Instruction = (
    SendRegister
    | SendReport
    | SendAcquire
    | Remember
    | Lease
    | Run
    | Tail
    | Ship
    | End
    | Collect
    | LookAtRun
    | KeepCheckpoints
    | Forget
    | DropEnvelopes
    | KeepEnvelopes
    | Probe
    | JoinStream
    | DoErrand
    | StartPlane
    | Leave
)
