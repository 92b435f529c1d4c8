"""A client of a server that may be away: who only waits there goes on waiting.

A parked GET (a followed log, the end of a job) is asked again for ten minutes, as long as jobs go
on without their server. All else is told within seconds that nobody answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from gpulayer.api.endpoints import Endpoint
from gpulayer.api.wire import Reply, Wire
from gpulayer.errors import UnreachableError
from gpulayer.sdk.away import LOST_SECONDS, asked_until_back


class PatientWire(Wire):
    def __init__(
        self,
        where: Endpoint,
        *,
        on_lost: Callable[[UnreachableError], object] = lambda error: None,
        lost_seconds: float = LOST_SECONDS,
        **how: Any,
    ) -> None:
        """`on_lost` is told once for each time that the server is away for longer than a moment."""
        super().__init__(where, **how)
        self._on_lost = on_lost
        self._lost_seconds = lost_seconds
        self._given_up = threading.Event()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        park: float = 0.0,
        sink: BinaryIO | None = None,
        tries: int | None = None,
    ) -> Reply:
        def once() -> Reply:
            return super(PatientWire, self).request(
                method, path, body, headers=headers, park=park, sink=sink, tries=tries
            )

        if method != "GET" or not park:
            return once()
        return asked_until_back(
            once, self._given_up, on_lost=self._on_lost, lost_seconds=self._lost_seconds
        )

    def abandon(self) -> None:
        self._given_up.set()
        super().abandon()
