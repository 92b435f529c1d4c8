"""One stretch of talk with a plane: what is under way, what may be sent next, when.

A session begins with `register`, and any call of it that fails ends it. There is one way back,
whatever went wrong: register again, which is harmless twice. Calls carry the session's number, so
that answers of an earlier one are told apart and dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayer.contracts.messages import (
    Acquire,
    Errand,
    Held,
    Register,
    Registered,
    Report,
    TaskReport,
)
from gpulayer.worker.instructions import DoErrand, SendAcquire, SendRegister, SendReport

MARGIN_PART = 1 / 6
"""Of a lease: so long before its end a task is ended that the plane may then give out again."""
PARK_PART = 2 / 3
"""Of a lease: so much less that a task acquired at the last moment can still be confirmed."""

PLANE_AWAY_SECONDS = 5.0
"""A plane that went away without a word and is not back by then is started again."""

_FIRST_RETRY, _LAST_RETRY = 0.02, 0.5


class Session:
    """Times are those of `Agent.handle`."""

    def __init__(self, worker_id: str, name: str, nonce: str, target: str, place: str = "") -> None:
        self.number = 0
        self.registered = False
        self.lease, self.interval = 30.0, 5.0
        self.register_sent = self.report_sent = self.acquire_sent = 0.0
        self.report: Report | None = None
        """The one in flight."""
        self.away_since: float | None = None
        self._identity = (worker_id, name, nonce, target)
        self._place = place
        self._registering = False
        self._acquiring = False
        self._acquire = 0
        self._incarnation = 0
        self._seq = 0
        self._retry_at, self._retry_wait = 0.0, _FIRST_RETRY

    def begin(
        self, capabilities: Mapping[str, Any], inventory: tuple[Held, ...], now: float
    ) -> SendRegister:
        self.number += 1
        self._seq += 1
        self._registering = True
        self.register_sent = now
        message = Register(*self._identity, capabilities, inventory, self._seq, self._place)
        return SendRegister(self.number, message)

    def begun(self, reply: Registered) -> None:
        self._registering, self.registered = False, True
        self._incarnation = reply.incarnation
        self.lease, self.interval = reply.lease_seconds, reply.report_seconds
        self._retry_wait, self.away_since = _FIRST_RETRY, None

    def over(self, now: float) -> None:
        self.number += 1
        self.registered = self._registering = self._acquiring = False
        self.report = None
        self._retry_at = now + self._retry_wait
        self._retry_wait = min(_LAST_RETRY, self._retry_wait * 2)
        if self.away_since is None:
            self.away_since = now

    def say(
        self,
        inventory: tuple[Held, ...],
        news: tuple[TaskReport, ...],
        capabilities: Mapping[str, Any] | None,
        now: float,
    ) -> SendReport:
        self._seq += 1
        self.report_sent = now
        worker_id = self._identity[0]
        load = {"tasks": len(inventory)}
        self.report = Report(
            worker_id, self._incarnation, self._seq, inventory, news, capabilities, load
        )
        return SendReport(self.number, self.report)

    def ask(self, now: float) -> SendAcquire:
        self._acquiring = True
        self._acquire += 1
        self.acquire_sent = now
        message = Acquire(self._identity[0], self._incarnation, self.park, self._acquire)
        return SendAcquire(self.number, self._acquire, message)

    def errands(self, errands: tuple[Errand, ...]) -> list[DoErrand]:
        return [DoErrand(errand, self._identity[0], self._incarnation) for errand in errands]

    def asked(self, number: int) -> bool:
        """Whether this is the answer awaited; an answer counts once, and only the newest."""
        awaited = self._acquiring and number == self._acquire
        self._acquiring = self._acquiring and not awaited
        return awaited

    @property
    def authority(self) -> float:
        """How long a task may run on without an answered exchange."""
        return self.lease * (1 - MARGIN_PART)

    @property
    def backstop(self) -> float:
        """When the supervisor ends it, if the agent could not; before the lease is over."""
        return self.lease * (1 - MARGIN_PART / 2)

    @property
    def park(self) -> float:
        return self.lease * PARK_PART

    @property
    def registering(self) -> bool:
        return self._registering

    @property
    def may_ask(self) -> bool:
        return self.registered and not self._acquiring

    @property
    def begins_at(self) -> float:
        """When to register; never while that or a session is under way."""
        return float("inf") if self.registered or self._registering else self._retry_at

    @property
    def heartbeat_at(self) -> float:
        return max(self.report_sent, self.register_sent) + self.interval

    @property
    def gives_up_at(self) -> float:
        """When a missing plane is to be started."""
        if self.registered or self.away_since is None:
            return float("inf")
        return self.away_since + PLANE_AWAY_SECONDS
