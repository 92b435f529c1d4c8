"""The routes by which a worker speaks: translation alone, as in `handlers`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from gpulayer.api.answers import PARK_SECONDS, Call, Parked
from gpulayer.contracts.messages import (
    Acquire,
    ErrandDone,
    KeepCheckpoint,
    KeepMetrics,
    Register,
    Report,
)
from gpulayer.contracts.principals import Role
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.ports import then
from gpulayer.control_plane.wakeups import worker_topic
from gpulayer.errors import RefusedError


class Speaking:
    """Part of `handlers.Handlers`, whose docstrings hold for it too."""

    _plane: ControlPlane

    looked_up: Callable[[Iterable[str], Callable[[], Future[Any]]], Future[Any]]
    """As `files.Files` has it."""

    def register(self, call: Call) -> Any:
        if self._plane.settings.kind == "embedded":
            # Its worker is in its own process. What comes here was said to the plane before it, by
            # an agent that has ended since, and would make that worker's tasks a stranger's.
            raise RefusedError("not-allowed", "this plane has its worker in its own process")
        message = Register.from_json(call.body)
        if call.principal.role is Role.WORKER:
            message = dataclasses.replace(message, name=call.principal.name, target="remote")
        return then(self._plane.register(message), lambda r: r.to_json())

    def report(self, call: Call) -> Any:
        message = Report.from_json(call.body)
        stored = (
            str(output.get("digest"))
            for news in message.tasks
            if news.exit is not None
            for output in news.exit.outputs
        )
        answer = self.looked_up(stored, lambda: self._plane.report(message))
        if self._plane.is_due(call.principal):
            answer = then(answer, lambda reply: dataclasses.replace(reply, renew=True))
        return then(answer, lambda reply: reply.to_json())

    def acquire(self, call: Call) -> Any:
        message = Acquire.from_json(call.body)
        topic = worker_topic(message.worker_id)

        def look(last: bool) -> Any:
            found = self._plane.acquire_now(message).result()
            return found.to_json() if last or found.is_news else None

        return Parked((topic,), min(message.park_seconds, PARK_SECONDS), look)

    def keep_checkpoint(self, call: Call) -> Future[Any]:
        message = KeepCheckpoint.from_json(call.body)
        return then(
            self._plane.keep_checkpoint(call.path["task"], message), lambda kept: kept.to_json()
        )

    def keep_metrics(self, call: Call) -> Future[Any]:
        message = KeepMetrics.from_json(call.body)
        return then(
            self._plane.keep_metrics(call.path["task"], message), lambda kept: kept.to_json()
        )

    def errand(self, call: Call) -> Any:
        self._plane.errand_done(ErrandDone.from_json(call.body))
        return {}

    def append_log(self, call: Call) -> Future[Any]:
        size = self._plane.append_log(
            call.path["task"], call.number("fence"), call.number("offset"), call.body
        )
        return then(size, lambda total: {"size": total})
