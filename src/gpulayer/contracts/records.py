"""The rows of the store, as the rules see them: frozen, slotted, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpulayer.contracts.ids import EnvelopeId, Fence, JobId, ShapeId, TaskId, WorkerId
from gpulayer.contracts.states import JobState, Reason, TaskState


@dataclass(frozen=True, slots=True)
class Job:
    """One logical submission. Times are Unix seconds of the plane's clock, for people."""

    id: JobId
    seq: int
    name: str
    spec: Mapping[str, Any]
    """Only the fields that were set; `JobSpec.model_validate` gives the rest."""
    shape_id: ShapeId
    state: JobState
    reason: Reason
    message: str = ""
    """One sentence about the reason, with its numbers."""
    priority: int = 0
    attempt: int = 0
    """How many times it has been given out."""
    lost: int = 0
    """Attempts that ended because a worker vanished; counts towards the crash limit."""
    max_attempts: int = 1
    retry_on: tuple[str, ...] = ("worker_lost",)
    fail_if_unschedulable: bool = False
    exit_code: int | None = None
    submitted_at: float = 0.0
    not_before: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    cancel_requested_at: float | None = None
    cancel_mode: str | None = None
    """`int`, `term` or `kill`: how firmly the task is asked to end."""
    cancel_grace: float = 10.0
    """Seconds between the steps of the ladder."""
    cancel_reason: Reason | None = None
    """Who asked; becomes the job's reason once it has ended."""
    retry_of: JobId | None = None
    envelope_id: EnvelopeId | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Who and where: folder, interpreter, terminal, session. Never environment values."""
    owner: str = ""
    """`Principal.owner` of who submitted it."""
    idempotency_key: str | None = None
    request_digest: str | None = None
    """Of the request that came with the key: the same key with another digest is a conflict."""
    version: int = 0
    """Grows with every update; a guarded update names the one it read."""
    elements: int | None = None
    """Of an array: how many it runs. Its counts are its `Progress`."""
    call_key: str | None = None
    """Of a cached one: equal for the same call; see `calls`."""

    @property
    def is_held(self) -> bool:
        """It waits for other jobs; no pass looks at it."""
        return self.state is JobState.QUEUED and self.reason is Reason.DEPENDENCY


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an array is. The first six numbers always add up to the job's `elements`."""

    job_id: JobId
    waiting: int
    """Elements that are still to be given out; none once the array is to end."""
    live: int = 0
    """Given out, and not told the end of."""
    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    cancelled: int = 0
    """Those too that were never given out."""
    returned: int = 0
    """Those that wait and were given out before."""
    next: int = 0
    """No position from here on was ever given out; see `elements.Grid`."""
    told: int = 0
    """Failures that the job's story tells of."""
    max_parallel: int | None = None
    max_failures: int | None = None
    pace: float | None = None
    """Seconds that one of them takes, by the newest ends. None: none has ended yet."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A thousand elements of an array, of which one was given out. No row: none was."""

    job_id: JobId
    chunk: int
    states: str
    """A letter for each, as `elements` says."""
    again: Mapping[str, tuple[int, int, float]] = field(default_factory=dict)
    """Position in the chunk -> (attempts used, attempts lost, not before), of elements that are
    given out again."""
    due: float | None = None
    """When the first of those that wait for that may be. None: none waits."""


@dataclass(frozen=True, slots=True)
class Task:
    """One assignment to one worker."""

    id: TaskId
    fence: Fence
    job_id: JobId
    index: int
    attempt: int
    rank: int
    worker_id: WorkerId
    incarnation: int
    state: TaskState
    reason: Reason
    message: str = ""
    phase: str = "assigned"
    """Of an assigned one: `ahead` or `recalled` (it holds nothing yet), `assigned`, then what its
    worker says."""
    cpu_cores: float = 1.0
    memory_gb: float = 0.0
    gpus: tuple[str, ...] = ()
    assigned_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    disconnected_since: float | None = None
    """Its worker is silent past the lease, and the task runs on: it has no attempt left."""
    exit_code: int | None = None
    log_size: int = 0
    log_complete: bool = False
    rendezvous: Mapping[str, Any] | None = None
    """Of node 0 of a gang: where its nodes meet, once its worker has said."""
    preparation: Mapping[str, Any] | None = None
    """A `messages.Preparation` as JSON, where there was something to prepare."""
    world: str | None = None
    """Digest of the artifact that says what it ran in; None: its worker has not said."""
    ending: Mapping[str, Any] | None = None
    """Of an ended node of a gang: what the job's end needs of it, once all have ended."""
    last: int | None = None
    """Of a run of elements: the index of its last one, `index` being the first. None: it is one."""


AHEAD_PHASES = frozenset({"ahead", "recalled"})
"""Of a task that holds nothing yet: it was sent along before there was room, or is asked back."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A machine's agent. `incarnation` grows with every start of it."""

    id: WorkerId
    name: str
    target: str
    incarnation: int
    capabilities: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)
    draining: bool = False
    nonce: str = ""
    """Of the process that registered: the same nonce again is the same incarnation."""
    registered_at: float = 0.0
    seen_at: float = 0.0
    plane: str = ""
    """The plane that it speaks with, where several share a store."""
    held: tuple[str, ...] = ()
    """Tasks that it had and had not told the end of when it was last written."""
    turn: int = 0
    """Number of the commit that wrote it."""
    place: str = ""
    """Where the process runs that registered, see `Register.place`."""
    heir: str = ""
    """The place of another machine that says the same name and waits to follow; empty: none."""
    replaced: tuple[str, ...] = ()
    """Places that others have followed: whoever speaks from there is sent away."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Which of the planes that share a store schedules."""

    epoch: int
    """Grows with each change."""
    plane: str | None = None
    """None: nobody does."""
    home: str | None = None
    """Where that plane lives; its successor there follows it at once."""
    commits: int | None = None
    """The number of its newest commit: while it grows, the plane is at work."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a job's story. `seq` is gapless per job, from 1."""

    job_id: JobId
    seq: int
    at: float
    kind: str
    """`submitted`, `decided`, `placed`, `started`, `finished`, `cancelling`, `retrying`,
    `disconnected`, `reconnected`, `late_report`, `log_removed`, `prepared`, ..."""
    state: str
    reason: str
    message: str = ""
    task_id: TaskId | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """The recorded end of one element. Written once."""

    job_id: JobId
    index: int
    attempt: int
    state: JobState
    exit_code: int | None
    value: str | None = None
    """JSON text of a function's return value."""
    error: Mapping[str, Any] | None = None
    """{type, message, traceback, log_tail} of a function, or {slug, message} of ours."""
    left: Mapping[str, Any] | None = None
    """{count, bytes, paths} of the files that stay in the workspace, for a day."""
    finished_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Output:
    """A file that a job left in its output folder."""

    job_id: JobId
    index: int
    path: str
    digest: str
    size: int
    executable: bool = False


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """The checkpoint folder of a job as it was at one moment, stored as artifacts."""

    job_id: JobId
    index: int
    attempt: int
    """Of the task that left it; 0: of an earlier job, of which this one goes on."""
    fence: int
    """Of that task; 0 the same."""
    at: float
    """Unix time of that moment, by the worker's clock."""
    boot: float
    """The same by its clock that nobody sets: orders those of one task."""
    size: int
    """Bytes of all files."""
    files: tuple[Mapping[str, Any], ...]
    """As `checkpoint_files` says."""
    told_at: float = 0.0
    """When the job's story last told of one of this attempt."""


@dataclass(frozen=True, slots=True)
class KeptMetrics:
    """A part of what a job has reported."""

    job_id: JobId
    task_id: str
    """Whose file it is from; empty: of several that are over."""
    read_to: int
    """Bytes of that file that are taken with it."""
    points: int
    """How many are in it."""
    series: tuple[Any, ...]
    """As `contracts.metrics` says."""
    seq: int = 0
    """Grows with every row."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended, as clients see it: at most one per element."""

    job_id: JobId
    state: JobState
    exit_code: int | None = None
    value: Any = None
    """A function's return value; None for a command."""
    error: Mapping[str, Any] | None = None
    outputs: tuple[Output, ...] = ()
