"""What travels between rooms or is stored, and nothing that acts.

    jobspec        JobSpec, made of workloads, resources, placement, supplies, reruns, arrays
    jobfile        a spec from JSON or YAML text, every problem with its line
    problems       pydantic's errors in plain words; notyet: what is accepted and not built
    limits         every limit; profiles, environ_names: tables; durations: `2h`, `64GB`, `a100:2`
    schema         the JSON Schema that is shipped as jobspec.schema.json
    ids, states    kinds of ids; the states and every legal move, the law for all rooms
    records        the store's rows; changes: what a rule wants written
    decision       shapes, worker views, verdicts; capabilities: what a worker reports
    messages       what plane and worker say to each other

The upper half is pydantic and is loaded by a plane, the SDK's checks and job files; the lower half
is dataclasses and loads nothing. So every name here is found when it is first asked for (PEP 562).
Owns no state, opens nothing, knows no other room.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpulayer.contracts.arrays import Array as Array
    from gpulayer.contracts.base import API_VERSION as API_VERSION
    from gpulayer.contracts.capabilities import (
        GpuDevice as GpuDevice,
        Interpreter as Interpreter,
        WorkerCapabilities as WorkerCapabilities,
    )
    from gpulayer.contracts.changes import (
        NOTHING as NOTHING,
        Changes as Changes,
        JobUpdate as JobUpdate,
        NewEvent as NewEvent,
        TaskUpdate as TaskUpdate,
    )
    from gpulayer.contracts.decision import (
        Allocation as Allocation,
        Check as Check,
        Decision as Decision,
        Fit as Fit,
        Outcome as Outcome,
        Pending as Pending,
        Placement as Placement,
        Shape as Shape,
        Snapshot as Snapshot,
        Verdict as Verdict,
        WorkerView as WorkerView,
    )
    from gpulayer.contracts.durations import (
        GpuRequest as GpuRequest,
        parse_duration as parse_duration,
        parse_gpus as parse_gpus,
        parse_memory_gb as parse_memory_gb,
    )
    from gpulayer.contracts.environ_names import is_reserved as is_reserved
    from gpulayer.contracts.ids import (
        Digest as Digest,
        EnvelopeId as EnvelopeId,
        Fence as Fence,
        JobId as JobId,
        ShapeId as ShapeId,
        TaskId as TaskId,
        WorkerId as WorkerId,
    )
    from gpulayer.contracts.jobfile import (
        load_jobfile as load_jobfile,
        validate_jobfile as validate_jobfile,
    )
    from gpulayer.contracts.jobspec import (
        After as After,
        JobSpec as JobSpec,
        spec_to_json as spec_to_json,
        validate_spec as validate_spec,
    )
    from gpulayer.contracts.messages import (
        WIRE as WIRE,
        Acquire as Acquire,
        Acquired as Acquired,
        Assignment as Assignment,
        Cancel as Cancel,
        Exit as Exit,
        Held as Held,
        Register as Register,
        Registered as Registered,
        Report as Report,
        ReportReply as ReportReply,
        TaskReport as TaskReport,
    )
    from gpulayer.contracts.notyet import not_yet as not_yet
    from gpulayer.contracts.placement import (
        PlacementPolicy as PlacementPolicy,
        ProvisioningPolicy as ProvisioningPolicy,
    )
    from gpulayer.contracts.profiles import PROFILES as PROFILES, Profile as Profile
    from gpulayer.contracts.reading import SourceMap as SourceMap
    from gpulayer.contracts.records import (
        Event as Event,
        Job as Job,
        JobResult as JobResult,
        Output as Output,
        Result as Result,
        Task as Task,
        Worker as Worker,
    )
    from gpulayer.contracts.reruns import (
        Checkpoint as Checkpoint,
        Resume as Resume,
        RetryPolicy as RetryPolicy,
    )
    from gpulayer.contracts.resources import ResourceRequest as ResourceRequest
    from gpulayer.contracts.schema import jobspec_schema as jobspec_schema
    from gpulayer.contracts.states import (
        JOB_TRANSITIONS as JOB_TRANSITIONS,
        LIVE_TASK_STATES as LIVE_TASK_STATES,
        TASK_TRANSITIONS as TASK_TRANSITIONS,
        TERMINAL_JOB_STATES as TERMINAL_JOB_STATES,
        TERMINAL_TASK_STATES as TERMINAL_TASK_STATES,
        JobState as JobState,
        Reason as Reason,
        TaskState as TaskState,
        WorkerState as WorkerState,
        may_move as may_move,
    )
    from gpulayer.contracts.supplies import (
        Environment as Environment,
        InputRef as InputRef,
        SecretRef as SecretRef,
    )
    from gpulayer.contracts.workloads import (
        CommandJob as CommandJob,
        DistributedJob as DistributedJob,
        FunctionJob as FunctionJob,
        Rendezvous as Rendezvous,
    )

_NAMES = {
    "arrays": "Array",
    "base": "API_VERSION",
    "capabilities": "GpuDevice Interpreter WorkerCapabilities",
    "changes": "NOTHING Changes JobUpdate NewEvent TaskUpdate",
    "decision": (
        "Allocation Check Decision Fit Outcome Pending Placement Shape Snapshot Verdict WorkerView"
    ),
    "durations": "GpuRequest parse_duration parse_gpus parse_memory_gb",
    "environ_names": "is_reserved",
    "ids": "Digest EnvelopeId Fence JobId ShapeId TaskId WorkerId",
    "jobfile": "load_jobfile validate_jobfile",
    "jobspec": "After JobSpec spec_to_json validate_spec",
    "messages": (
        "WIRE Acquire Acquired Assignment Cancel Exit Held Register Registered Report "
        "ReportReply TaskReport"
    ),
    "notyet": "not_yet",
    "placement": "PlacementPolicy ProvisioningPolicy",
    "profiles": "PROFILES Profile",
    "reading": "SourceMap",
    "records": "Event Job JobResult Output Result Task Worker",
    "resources": "ResourceRequest",
    "reruns": "Checkpoint Resume RetryPolicy",
    "schema": "jobspec_schema",
    "states": (
        "JOB_TRANSITIONS LIVE_TASK_STATES TASK_TRANSITIONS TERMINAL_JOB_STATES "
        "TERMINAL_TASK_STATES JobState Reason TaskState WorkerState may_move"
    ),
    "supplies": "Environment InputRef SecretRef",
    "workloads": "CommandJob DistributedJob FunctionJob Rendezvous",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
