"""What plane and worker say to each other.

The same four verbs serve the in-process channel and HTTP: `register`, `report`, `acquire`,
`append_log`. All are idempotent. Every report about a task carries its fence. Bodies are JSON
objects made by `to_json` and read leniently by `from_json`. Longer than other files: one language.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from gpulayer import _version
from gpulayer.contracts.fitting import fitted_to

WIRE = _version.WIRE
"""Major version of these messages; peers with another one refuse each other by name."""


@dataclass(frozen=True, slots=True)
class Message:
    """Shared JSON form: field names are the keys; unknown keys are ignored when read."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Raises UsageError where a field does not hold what it says, or is missing."""
        fitted_to(cls, data)
        values: dict[str, Any] = {}
        for spec in dataclasses.fields(cls):
            if spec.name in data:
                nested = _NESTED.get((cls.__name__, spec.name))
                value = data[spec.name]
                if nested is not None and value is not None:
                    values[spec.name] = (
                        nested.from_json(value)
                        if isinstance(value, Mapping)
                        else tuple(nested.from_json(item) for item in value)
                    )
                else:
                    values[spec.name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Held(Message):
    """One line of a worker's inventory: a task that it still has in some form."""

    task_id: str
    fence: int
    phase: str
    """`staging`, `running`, `exited` (reported, not yet forgotten)."""
    ahead: bool = False
    """It was sent ahead and has had no room."""


@dataclass(frozen=True, slots=True)
class Register(Message):
    """First word of a worker's start, and its answer to `re-register`."""

    worker_id: str
    name: str
    nonce: str
    """Random per process start: the same nonce again is the same incarnation."""
    target: str
    capabilities: Mapping[str, Any]
    inventory: tuple[Held, ...] = ()
    seq: int = 0
    """Counted together with the reports' of this nonce: of two, the larger one is newer."""
    place: str = ""
    """Names a lock on one machine that this process holds, so that of two agents of one place the
    earlier one is dead. Empty: not known; then it is like no other."""


@dataclass(frozen=True, slots=True)
class Registered(Message):
    incarnation: int
    lease_seconds: float
    report_seconds: float
    kill: tuple[str, ...] = ()
    """Task ids of the inventory that are nobody's any more: end them, then forget them."""
    forget: tuple[str, ...] = ()
    """Task ids whose end is already recorded."""
    envelopes: tuple[str, ...] = ()
    """Envelope ids that unfinished jobs still need; all others may be dropped."""


@dataclass(frozen=True, slots=True)
class Assignment(Message):
    """A task handed to a worker. It authorises running; no further word is needed."""

    task_id: str
    fence: int
    job_id: str
    job_name: str
    index: int
    attempt: int
    rank: int
    spec: Mapping[str, Any]
    """The job's spec as submitted (only fields that were set)."""
    origin: Mapping[str, Any]
    envelope_id: str | None = None
    gpus: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    ahead: bool = False
    """Begin it when a task of the same size ends whose end was not told yet, or when this very
    assignment comes without the word."""
    gang: Mapping[str, Any] | None = None
    """Of a node of several: {id, nodes: [{worker_id, name, address}], rendezvous}. `rendezvous` is
    what node 0's worker has published for this attempt: {address, port, token}."""
    checkpoints: tuple[Mapping[str, Any], ...] = ()
    """What was kept of the job, newest first: {attempt, at, size, files}. The first one that can
    be fetched is put back before it starts."""
    run: Mapping[str, Any] | None = None
    """Of a run of elements, for workers whose capabilities say `takes_runs`: as `contracts.runs`
    says. All else is that of its first element."""


@dataclass(frozen=True, slots=True)
class Exit(Message):
    """How a task's process tree ended."""

    outcome: str
    """A terminal TaskState: succeeded, failed, cancelled, timed_out, lost."""
    reason: str
    """A `states.Reason`."""
    message: str = ""
    exit_code: int | None = None
    """Shell convention: 128+n after signal n."""
    signal: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    value: str | None = None
    """JSON text returned by a function."""
    error: Mapping[str, Any] | None = None
    outputs: tuple[Mapping[str, Any], ...] = ()
    """[{path, digest, size, executable}], already in the artifact store."""
    failed_rank: int | None = None
    """Of a distributed job: the rank of this node that failed first."""
    failed_at: float | None = None
    """Unix time of that, by the node's clock."""
    left: Mapping[str, Any] | None = None
    """{count, bytes, paths} of what stays in the workspace; the largest paths alone."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """{user_seconds, system_seconds, max_rss_bytes}, where known."""
    elements: tuple[Mapping[str, Any], ...] = ()
    """Of a run: those of its elements that have ended, in order, as `contracts.runs` says."""


@dataclass(frozen=True, slots=True)
class PreparedStep(Message):
    name: str
    """`source`, `inputs`, `stdin`, `environment`, `image`, `preload`."""
    seconds: float
    note: str = ""
    """What it came to, for people."""


@dataclass(frozen=True, slots=True)
class Preparation(Message):
    """What came before a task's start: of what it brings, and never part of its run."""

    seconds: float
    steps: tuple[PreparedStep, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskReport(Message):
    """News about one task. Started and finished may come in one report."""

    task_id: str
    fence: int
    phase: str | None = None
    started_at: float | None = None
    exit: Exit | None = None
    log_size: int | None = None
    """With `exit`: the whole size of the framed segment."""
    log: str | None = None
    """Base64 of the whole framed segment, when it is small and none of it was shipped."""
    rendezvous: Mapping[str, Any] | None = None
    """With the start of node 0 of a gang: where the others find it."""
    preparation: Preparation | None = None
    """With its start, or its end, where there was something to prepare."""
    world: str = ""
    """The same: digest of the artifact that says what it runs in (`worker.worlds`)."""
    elements: tuple[Mapping[str, Any], ...] = ()
    """Of a run that goes on: some that have succeeded, as in `Exit.elements`, which names them
    again."""


@dataclass(frozen=True, slots=True)
class Report(Message):
    """Heartbeat and news. `seq` grows by one; a repeated seq gets the recorded reply."""

    worker_id: str
    incarnation: int
    seq: int
    inventory: tuple[Held, ...] = ()
    tasks: tuple[TaskReport, ...] = ()
    capabilities: Mapping[str, Any] | None = None
    """Only when they changed."""
    load: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cancel(Message):
    task_id: str
    mode: str
    """`int`: SIGINT, TERM after grace, then KILL. `term`: TERM, then KILL. `kill`: at once."""
    grace_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class ReportReply(Message):
    """`ok` False: the incarnation is not (or no longer) known; register again."""

    ok: bool = True
    lease_seconds: float = 30.0
    report_seconds: float = 5.0
    """When to report again without news."""
    recorded: tuple[str, ...] = ()
    """Task ids whose exits are now durable (or stale for good): forget them."""
    cancel: tuple[Cancel, ...] = ()
    kill: tuple[str, ...] = ()
    """Stale fences: end without reporting."""
    drop_envelopes: tuple[str, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    """What was placed in the room that the report made. An acquire brings them again where this
    reply is lost."""
    renew: bool = False
    """The worker's session should be renewed (`POST /v1/worker/renew`); the old one is good until
    the new one is used."""


@dataclass(frozen=True, slots=True)
class KeepCheckpoint(Message):
    """A task's checkpoint folder as it was at one moment; what its files hold is stored already."""

    fence: int
    at: float
    """Unix time of that moment, for people."""
    boot: float
    """The same by the worker's clock that nobody sets: of two of one task, the larger is newer."""
    files: tuple[Mapping[str, Any], ...] = ()
    """As `contracts.checkpoint_files` says. None: there is only something to tell."""
    note: str = ""
    """What could not be kept, and why, for people."""


@dataclass(frozen=True, slots=True)
class CheckpointKept(Message):
    """Not `kept`: the attempt is over for the plane, or has a newer one, or lacks artifacts."""

    kept: bool
    over: bool = False
    """Nothing of this attempt will be taken any more."""
    missing: tuple[str, ...] = ()
    """Digests that the plane does not have: store them, and say it again."""


@dataclass(frozen=True, slots=True)
class KeepMetrics(Message):
    """What a task has reported in a part of its file of metrics."""

    fence: int
    begins: int
    """Bytes of the file before that part."""
    ends: int
    """The same with it."""
    series: tuple[Mapping[str, Any], ...] = ()
    """{index, name, points} each, as `contracts.metrics` says."""
    note: str = ""
    """What is left out, and why, for people."""


@dataclass(frozen=True, slots=True)
class MetricsKept(Message):
    read_to: int = 0
    """What the plane has: the next part begins there."""
    over: bool = False
    """Nothing of this attempt will be taken any more."""


@dataclass(frozen=True, slots=True)
class Acquire(Message):
    """Parks until there is work, a cancel or the time is up. Only the newest of an incarnation
    is served; an older one is answered empty at once."""

    worker_id: str
    incarnation: int
    park_seconds: float = 25.0
    seq: int = 0
    """Grows with every call of the incarnation: of two, the larger one is newer."""


@dataclass(frozen=True, slots=True)
class StreamOrder(Message):
    """Somebody wants to come into a running task: join the stream of that id
    (`POST /v1/worker/streams/{id}`), whatever comes of it."""

    stream: str
    task_id: str
    fence: int
    job_id: str
    kind: str
    """`exec`: a command. `forward`: hold the way open until the task ends. `connect`: to a port."""
    argv: tuple[str, ...] = ()
    """Of an `exec`; none: the user's shell. `port` is at the task's loopback."""
    port: int = 0
    terminal: Mapping[str, Any] | None = None
    """{attrs, rows, cols} of the visitor's. None: three pipes. `set` are variables for it."""
    set: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Errand(Message):
    """Something to do besides tasks, and to answer (`POST /v1/worker/errand`). Harmless twice."""

    id: str
    verb: str
    """`caches`: tell what is kept. `remove_environments`: let go of some."""
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrandDone(Message):
    worker_id: str
    incarnation: int
    errand_id: str
    answer: Mapping[str, Any] | None = None
    why: str = ""
    """Why there is no answer."""


@dataclass(frozen=True, slots=True)
class Acquired(Message):
    """`ok` False: this call is over. Its incarnation is not known (any more), so register again;
    or a newer call took its place, and then nobody waits for this answer."""

    ok: bool = True
    assignments: tuple[Assignment, ...] = ()
    retract: tuple[Assignment, ...] = ()
    """Taken back, unless it has begun to prepare them: the worker's word decides. Each that has not
    ends as lost, reason `retracted`."""
    cancel: tuple[Cancel, ...] = ()
    probe: tuple[str, ...] = ()
    """Interpreters that a waiting job would use and that the worker has not told about: look at
    each and report what it has."""
    leave: bool = False
    """The plane is going: end when idle."""
    streams: tuple[StreamOrder, ...] = ()
    """For workers whose capabilities say `streams`."""
    errands: tuple[Errand, ...] = ()
    """For workers whose capabilities say `errands`."""

    @property
    def is_news(self) -> bool:
        """Whether there is a reason to answer before the park is over."""
        orders = self.assignments or self.retract or self.cancel or self.probe or self.streams
        return bool(orders or self.errands or self.leave or not self.ok)


_NESTED: dict[tuple[str, str], type[Message]] = {
    ("Register", "inventory"): Held,
    ("Report", "inventory"): Held,
    ("Report", "tasks"): TaskReport,
    ("TaskReport", "exit"): Exit,
    ("TaskReport", "preparation"): Preparation,
    ("Preparation", "steps"): PreparedStep,
    ("ReportReply", "cancel"): Cancel,
    ("ReportReply", "assignments"): Assignment,
    ("Acquired", "assignments"): Assignment,
    ("Acquired", "retract"): Assignment,
    ("Acquired", "cancel"): Cancel,
    ("Acquired", "streams"): StreamOrder,
    ("Acquired", "errands"): Errand,
}
