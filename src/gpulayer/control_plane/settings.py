"""The plane's times and limits, all in one place. Seconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from gpulayer.contracts import keeping


@dataclass(frozen=True, slots=True)
class Settings:
    kind: str = "local"
    """`local`, `embedded` or `serve`."""

    plane: str = ""
    """Names it among the planes that share its store; empty: it is alone, and schedules."""
    home: str = ""
    """Where it lives: the next plane there may follow it at once, for it is dead then."""
    scheduler_seconds: float = 10.0
    """How long the plane that schedules may commit nothing before another takes its place."""

    lease_seconds: float = 30.0
    """How long a silent worker keeps its tasks. Nothing expires for one lease after a start."""
    disconnect_grace_seconds: float = 600.0
    """How much longer for a task that could not be given out again: losing it helps nobody."""
    report_seconds: float = 5.0
    """How often a worker reports when it has no news, while they are few."""
    reports_per_second: float = 50.0
    """Of all workers together: of many, each reports more rarely, up to half a lease."""
    seen_seconds: float = 10.0
    """How often a heartbeat is written down."""
    redeliver_seconds: float = 5.0
    """When an assignment or order that the worker has not confirmed is handed out again."""
    settle_seconds: float = 30.0
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
    ahead_seconds: float = 0.05
    """Work that is sent ahead of a task that runs, at most: so long may a short job wait behind it
    that could begin elsewhere."""
    history_jobs: int = keeping.HISTORY_JOBS
    history_seconds: float = keeping.HISTORY_SECONDS
    """Ended jobs are kept while they are among the newest of these and younger than this."""
    logs_bytes: int = keeping.LOGS_BYTES
    unnamed_seconds: float = keeping.UNNAMED_SECONDS
    """These and those above are what `contracts.keeping` says of them."""

    token_seconds: float = 90 * 86_400.0
    """How long a person's token is good, unless asked otherwise, and the most that may be asked."""
    token_seconds_most: float = 365 * 86_400.0
    code_seconds: float = 3600.0
    """The same for a code of `join` and `login`."""
    code_seconds_most: float = 86_400.0
    code_uses_most: int = 1000
    session_seconds: float = 86_400.0
    """A worker's session. Renewed when two thirds are over."""
    return_seconds: float = 30 * 86_400.0
    """How long after its end it may still be renewed, by a machine that was off meanwhile."""
    instance_seconds: float = 900.0
    used_seconds: float = 300.0
    """How exactly the last use of a credential is written down."""
    believed_seconds: float = 1.0
    """How long a credential that was looked up is taken for unchanged. What this very plane
    changes counts at once."""
    audit_seconds: float = keeping.AUDIT_SECONDS

    dispatches_at_once: bool = True
    """False: only `run_once` places jobs. For tests that choose the order of things."""

    def report_every(self, workers: int) -> float:
        """Seconds between two reports of one of so many workers."""
        most = max(self.report_seconds, self.lease_seconds / 2)
        return min(most, max(self.report_seconds, workers / self.reports_per_second))
