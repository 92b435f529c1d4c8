"""The plane's times and limits, all in one place. Seconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    kind: str = "local"
    """`local`, `embedded` or `serve`."""

    lease_seconds: float = 30.0
    """How long a silent worker keeps its tasks. Nothing expires for one lease after a start."""
    disconnect_grace_seconds: float = 600.0
    """How much longer for a task that could not be given out again: losing it helps nobody."""
    report_seconds: float = 5.0
    """How often a worker reports when it has no news."""
    seen_seconds: float = 10.0
    """How often a heartbeat is written down."""
    redeliver_seconds: float = 5.0
    """When an assignment or order that the worker has not confirmed is handed out again."""
    settle_seconds: float = 10.0
    """After a start, how long the first worker may take to come before a job may fail for want
    of one."""
    tick_seconds: float = 1.0
    grace_seconds: float = 10.0
    """Between the steps by which a task is made to end."""

    unfinished_jobs: int = 1_000_000
    """More are refused with `plane-full`."""
    batch_jobs: int = 10_000
    """Jobs of one submission."""
    key_characters: int = 255
    """An idempotency key."""
    origin_bytes: int = 64 * 1024
    log_bytes: int = 1 << 30
    """Framed log of one task."""
    pass_jobs: int = 64
    """Jobs of one shape that one scheduling pass looks at; more are left to the next."""
    history_jobs: int = 100_000
    history_seconds: float = 30 * 86_400.0
    """Ended jobs are kept while they are among the newest of these and younger than this."""

    dispatches_at_once: bool = True
    """False: only `run_once` places jobs. For tests that choose the order of things."""
