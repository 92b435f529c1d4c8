"""The states of jobs, tasks and workers, and every legal move between them, as data.

This module is the law. Code moves rows only through it, the database repeats it in CHECK
constraints and triggers, the docs' diagrams are drawn from it, and the property tests walk it.
A state says where something is; a reason says why. They are different enums.
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    QUEUED = "queued"
    """Waits for a machine. The dispatcher moves it on."""
    PROVISIONING = "provisioning"
    """Capacity was ordered for it."""
    SCHEDULED = "scheduled"
    """Tasks are assigned; nothing of the workload has run."""
    RUNNING = "running"
    """The workload's own code has begun."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class TaskState(StrEnum):
    ASSIGNED = "assigned"
    """Given to a worker, which stages and prepares; `phase` says where it is."""
    RUNNING = "running"
    """Past the workload's exec."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    """Nobody will ever report on it: worker, supervisor or keeper ended first, or it was taken
    back before it began (reason `retracted`, which uses no attempt)."""


class WorkerState(StrEnum):
    """Derived from heartbeats and tasks, never stored."""

    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    OFFLINE = "offline"


JOB_TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset(
        {JobState.PROVISIONING, JobState.SCHEDULED, JobState.FAILED, JobState.CANCELLED}
    ),
    JobState.PROVISIONING: frozenset(
        {JobState.QUEUED, JobState.SCHEDULED, JobState.FAILED, JobState.CANCELLED}
    ),
    JobState.SCHEDULED: frozenset(
        {
            JobState.QUEUED,
            JobState.RUNNING,
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.TIMED_OUT,
        }
    ),
    JobState.RUNNING: frozenset(
        {
            JobState.QUEUED,
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.TIMED_OUT,
        }
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.TIMED_OUT: frozenset(),
}

TASK_TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.ASSIGNED: frozenset(
        {
            TaskState.RUNNING,
            TaskState.SUCCEEDED,
            TaskState.FAILED,
            TaskState.CANCELLED,
            TaskState.TIMED_OUT,
            TaskState.LOST,
        }
    ),
    TaskState.RUNNING: frozenset(
        {
            TaskState.SUCCEEDED,
            TaskState.FAILED,
            TaskState.CANCELLED,
            TaskState.TIMED_OUT,
            TaskState.LOST,
        }
    ),
    TaskState.SUCCEEDED: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.CANCELLED: frozenset(),
    TaskState.TIMED_OUT: frozenset(),
    TaskState.LOST: frozenset(),
}

TERMINAL_JOB_STATES = frozenset(s for s, onward in JOB_TRANSITIONS.items() if not onward)
TERMINAL_TASK_STATES = frozenset(s for s, onward in TASK_TRANSITIONS.items() if not onward)
LIVE_JOB_STATES = frozenset(JobState) - TERMINAL_JOB_STATES
LIVE_TASK_STATES = frozenset(TaskState) - TERMINAL_TASK_STATES


class Reason(StrEnum):
    """Why a job or task is where it is. Stored beside the state, shown to people, stable."""

    SUBMITTED = "submitted"
    PLACED = "placed"
    STARTED = "started"
    EXITED = "exited"
    """Ended by itself; the exit code says how."""
    KILLED = "killed"
    """Ended by a signal that GPUlayer did not send."""
    OUT_OF_MEMORY = "out_of_memory"
    """Killed by the kernel for memory, with evidence."""
    NOT_FOUND = "not_found"
    """Command, function or interpreter does not exist (exit code 127)."""
    NOT_EXECUTABLE = "not_executable"
    """Found, but cannot be executed (exit code 126)."""
    PREPARATION = "preparation"
    """A step before the workload failed (exit code 126)."""
    SECRET_MISSING = "secret_missing"
    ENVELOPE_LOST = "envelope_lost"
    """The terminal's environment, kept for a job here, is gone."""
    FOLDER_GONE = "folder_gone"
    RESULT_NOT_JSON = "result_not_json"
    EXCEPTION = "exception"
    """A function raised."""
    TIMEOUT = "timeout"
    USER = "user"
    """Somebody asked for the cancellation."""
    SHUTDOWN = "shutdown"
    """An embedded plane ended with its process."""
    WORKER_LOST = "worker_lost"
    SUPERVISOR_LOST = "supervisor_lost"
    PREEMPTED = "preempted"
    """The machine was taken back by its owner."""
    UNSCHEDULABLE = "unschedulable"
    DEPENDENCY = "dependency"
    CRASH_LIMIT = "crash_limit"
    RETRY = "retry"
    RETRACTED = "retracted"
    DISK_FULL = "disk_full"
    REPORT_REFUSED = "report_refused"
    """The plane would not take what the worker told of its end: too large, or malformed."""
    RENDEZVOUS = "rendezvous"
    """The nodes of a distributed job did not find each other in time."""
    PORT_TAKEN = "port_taken"
    """Another process took the port at which they were to meet."""
    ELEMENTS_FAILED = "elements_failed"
    """All elements of an array have ended, and some of them failed."""
    MAX_FAILURES = "max_failures"
    """More elements of an array had failed than it allows."""
    PEER_FAILED = "peer_failed"
    """Ended because another node or rank of the same job had failed."""


def may_move(before: JobState | TaskState, after: JobState | TaskState) -> bool:
    """Whether the law allows the move. A state never moves to itself."""
    if isinstance(before, JobState) and isinstance(after, JobState):
        return after in JOB_TRANSITIONS[before]
    if isinstance(before, TaskState) and isinstance(after, TaskState):
        return after in TASK_TRANSITIONS[before]
    return False
