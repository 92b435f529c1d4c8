"""What makes a job run more than once, and what it finds when it does."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from gpulayer.contracts import limits
from gpulayer.contracts.attempts import RESTARTED_ON, RETRIED_ON, Restart
from gpulayer.contracts.base import Contract, refusal
from gpulayer.contracts.texts import SafePath

_CAUSES = ("worker_lost", "failed", "timed_out", "preempted")
_EXIT = re.compile(r"exit:(?:[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])", re.ASCII)


def _check_cause(value: str) -> str:
    if value not in _CAUSES and _EXIT.fullmatch(value) is None:
        raise refusal(
            f"must be one of {', '.join(_CAUSES)} or exit:1 to exit:255", 'write "failed"'
        )
    return value


class RetryPolicy(Contract):
    """How often an independent job is given out again, and after what."""

    max_attempts: int = Field(
        1, ge=1, le=limits.ATTEMPTS, description="How often it may be tried in all."
    )
    retry_on: list[Annotated[str, AfterValidator(_check_cause)]] = Field(
        default_factory=lambda: list(RETRIED_ON),
        max_length=limits.CHOICES,
        description="worker_lost, failed, timed_out, preempted, exit:N.",
    )


class Resume(Contract):
    """How often a whole distributed job starts again from its newest checkpoint."""

    max_restarts: int = Field(
        1, ge=0, le=limits.RESTARTS, description="How often it may start again."
    )
    on: list[Restart] = Field(
        default_factory=lambda: list(RESTARTED_ON),
        max_length=3,
        description="After what.",
    )


class Checkpoint(Contract):
    """A folder that is kept while the job runs and put back at its next attempt."""

    path: SafePath = Field(description="The folder, relative to the working folder.")
    interval_seconds: float = Field(
        300, gt=0, le=limits.SECONDS, description="How often it is kept."
    )
