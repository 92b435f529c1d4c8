"""What the scheduler is asked and what it answers: shapes, views, checks, decisions.

A decision holds all that it was made from, so that it can be stored and replayed: the same shape,
the same views and the same time give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.ids import JobId, ShapeId, WorkerId


@dataclass(frozen=True, slots=True)
class Shape:
    """What the scheduler looks at in a job, and nothing else. Equal shapes are judged once.

    Made from a validated spec by `scheduler.shapes.shape_of`; serialised canonically, its digest
    is the `ShapeId`.
    """

    accelerator: str = "cpu"
    gpus: int = 0
    """Devices per node."""
    gpu_memory_gb: float | None = None
    gpu_memory_kind: str | None = None
    gpu_models: tuple[str, ...] = ()
    min_compute_capability: str | None = None
    cpu_cores: float = 1.0
    memory_gb: float | None = None
    disk_gb: float | None = None
    os: tuple[str, ...] = ()
    cpu_arch: tuple[str, ...] = ()
    frameworks: tuple[tuple[str, str], ...] = ()
    python: str | None = None
    interpreter: str | None = None
    """A job here names the interpreter it will use; frameworks are judged on that one."""
    interpreter_version: str | None = None
    """As the terminal saw it, so that Python is judged before the worker has looked."""
    visible_gpus: tuple[str, ...] | None = None
    """The terminal's own CUDA_VISIBLE_DEVICES, as a restriction. None: no restriction."""
    data: tuple[str, ...] = ()
    """Names of data sets."""
    data_here: tuple[str, ...] = ()
    """Those of them that the terminal of a job here names itself."""
    secrets: tuple[str, ...] = ()
    """What the worker must give, by name."""
    secrets_here: bool = False
    """A job here has its secrets from its own terminal and user, if need be."""
    image: bool = False
    """Whether it runs in a container image."""
    nodes: int = 1
    """Nodes of a gang; all or nothing."""
    distinct: bool = False
    """Each node of a gang must have a worker of its own. Else those are preferred, and several
    nodes share one where there are too few."""
    targets: tuple[str, ...] = ("local",)
    """Target and its fallbacks, in order."""
    worker_ids: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    strategy: str = "spread"
    max_hourly_cost: float | None = None
    currency: str = "USD"
    limit: float | None = None
    """Seconds that it runs at most, rounded up; what may begin beside a reservation depends on it.
    None: no limit."""
    nested: bool = False
    """Submitted from inside of a job, which most likely waits for it: no reservation stops it."""


@dataclass(frozen=True, slots=True)
class Pending:
    """One job in the queue, as the scheduler sees it."""

    job_id: JobId
    shape_id: ShapeId
    priority: int
    seq: int
    """Submission order; decides among equal priorities."""
    fail_if_unschedulable: bool = False
    is_array: bool = False
    """It stands for one of its elements; there may be several like it."""
    since: float | None = None
    """When it could have begun first."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A job whose task was sent ahead and has not begun."""

    task_id: str
    job_id: str
    worker_id: WorkerId
    shape_id: ShapeId
    priority: int
    cpu_cores: float
    memory_gb: float
    is_recalled: bool = False


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one live task holds on a worker."""

    task_id: str
    job_id: str
    cpu_cores: float
    memory_gb: float = 0.0
    gpus: tuple[str, ...] = ()
    """UUIDs."""
    until: float | None = None
    """When its time limit ends it. None: it has no limit."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What of a worker is kept for a job that waits: its reservation there."""

    worker_id: WorkerId
    job_id: str
    until: float | None
    """When that job can begin, by the limits of what runs. None: nobody knows, and what becomes
    free is kept until it is enough."""
    cpu_cores: float
    """What those may have that end later than that: here and in what follows."""
    memory_gb: float
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker at one instant: what it has, who holds what, whether it may be given work."""

    worker_id: WorkerId
    name: str
    target: str
    """`local`, `remote` or `cloud`."""
    capabilities: WorkerCapabilities
    allocations: tuple[Allocation, ...] = ()
    draining: bool = False
    offline: bool = False
    ahead: int = 0
    """How many tasks may be sent ahead of its room, for each that runs."""
    sent: tuple[int, ...] = ()
    """Priorities of those that were."""
    hourly_cost: float | None = None
    currency: str = "USD"
    hold: Hold | None = None
    """Only within a pass, and in what is stored of it."""


class Fit(StrEnum):
    """How a worker stands to a shape."""

    YES = "yes"
    BUSY = "busy"
    """It could, once what it holds now is free."""
    UNKNOWN = "unknown"
    """A fact is not known yet; waiting may settle it."""
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: its stable name, what the job needs, what the worker has, the outcome."""

    name: str
    """Such as `gpu_memory`; listed in `scheduler.checks`."""
    fit: Fit
    need: str
    have: str
    gap: float = 0.0
    """Share of the need that is missing, 0..1; 1 where it is no matter of degree. For people:
    the closest worker is told first."""

    def sentence(self) -> str:
        """`needs 40 GB per GPU, has 24 GB`."""
        return f"needs {self.need}, has {self.have}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All checks of one worker against one shape. `fit` is the worst of them."""

    worker_id: WorkerId
    worker_name: str
    fit: Fit
    checks: tuple[Check, ...]
    """Those that do not pass come first; a passing verdict lists all that were made."""
    count: int = 1
    """How many workers fail (or pass) the same checks; the named one stands for all."""
    examples: tuple[WorkerId, ...] = ()
    """Some of the others."""


@dataclass(frozen=True, slots=True)
class Placement:
    """One task of a placed job."""

    worker_id: WorkerId
    rank: int
    cpu_cores: float
    memory_gb: float
    gpus: tuple[str, ...]
    ahead: bool = False
    """It holds nothing yet: it begins when a task of the same size ends on that worker."""


class Outcome(StrEnum):
    PLACED = "placed"
    WAITING = "waiting"
    UNSCHEDULABLE = "unschedulable"
    """No registered worker could ever run it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The explained outcome of one placement attempt for one job."""

    job_id: JobId
    shape_id: ShapeId
    outcome: Outcome
    placements: tuple[Placement, ...]
    verdicts: tuple[Verdict, ...]
    summary: str
    """One sentence for people, such as `no worker has 4 free GPUs`."""
    holds: tuple[Hold, ...] = ()
    """What is kept for it from here on in this pass."""


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """A decision as the store kept it: equal answers in a row are one, with a count."""

    decision: Decision
    count: int
    first_at: float
    last_at: float
    examples: tuple[JobId, ...]
    """The first and the last job that it was made for."""
    inputs: Mapping[str, Any] | None = None
    """What it was made from, for a replay."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a scheduling pass is given. Same snapshot, same decisions, to the byte."""

    shapes: Mapping[ShapeId, Shape]
    queue: tuple[Pending, ...]
    workers: tuple[WorkerView, ...]
    limits: Mapping[str, Any] = field(default_factory=dict)
    """`now`: seconds; without it nothing is reserved.
    `heads`: jobs of a shape that the queue was cut to; one with so many may have more.
    `max_placements`: jobs placed in one pass (unset: all).
    `detail`: fleets up to this size are told worker by worker, larger ones in groups (32).
    `fleet_settled`: False while workers may still be on their way; nothing fails then (True)."""
