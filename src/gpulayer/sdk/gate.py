"""Counts who calls a plane, and turns callers away while it is leaving.

Only what people do is activity. A worker's heartbeats and parked calls come for ever, so a plane
that counted them would never be idle.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulayer._version import __version__
from gpulayer.api.listener import PRIVATE
from gpulayer.clock import Clock
from gpulayer.contracts.messages import WIRE
from gpulayer.runtime import crash

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LEAVING = json.dumps(
    {"error": {"code": "plane-unreachable", "message": "the plane is handing over; ask again"}}
).encode()
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(_LEAVING)).encode()),
    (b"connection", b"close"),
    (b"x-gpulayer-version", __version__.encode()),
    (b"x-gpulayer-wire", str(WIRE).encode()),
]


class Gate:
    """An ASGI application around another. Belongs to the event loop's thread."""

    def __init__(
        self, app: ASGIApp, clock: Clock, on_worker_gone: Callable[[], None] = lambda: None
    ) -> None:
        """`on_worker_gone` is called when the connection ends on which a worker had parked."""
        self._app = app
        self._on_worker_gone = on_worker_gone
        self._clock = clock
        self._last = clock.monotonic()
        self.is_closing = False
        """True: new calls are answered 503, which clients try again."""
        self._is_leaving = False
        self._changing = 0
        """Calls that may change something, being answered."""
        self._settled = asyncio.Event()
        self.clients = 0
        """Calls of clients that are being answered."""
        self.served = 0
        """Calls of clients so far."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_worker = scope["path"].startswith("/v1/worker/")
        if self.is_closing or (self._is_leaving and not is_worker):
            await send({"type": "http.response.start", "status": 503, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": _LEAVING})
            return
        if crash.is_armed:
            send = _mortal(scope["path"].rpartition("/")[2], send)
        if scope["path"] == "/v1/worker/acquire" and scope.get("state", {}).get(PRIVATE):
            await self._parked_by_worker(scope, receive, send)
            return
        if is_worker:
            await self._app(scope, receive, send)
            return
        changes = scope["method"] != "GET"
        self.clients += 1
        self.served += 1
        self._changing += changes
        try:
            await self._app(scope, receive, send)
        finally:
            self.clients -= 1
            self._changing -= changes
            self._last = self._clock.monotonic()
            if self._is_leaving and not self._changing:
                self._settled.set()

    async def turn_clients_away(self) -> None:
        """From now on only workers are let in. Returns when what clients had begun is done, so
        that no job comes any more."""
        self._is_leaving = True
        if self._changing:
            await self._settled.wait()

    async def _parked_by_worker(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The held connection of this machine's worker: its end is the first news of its death.
        Its body is read here, which nothing does for a stranger before it is known."""
        heard: deque[Message] = deque()
        while not heard or heard[-1].get("more_body"):
            heard.append(await receive())
        gone = asyncio.ensure_future(receive())

        async def replay() -> Message:
            return heard.popleft() if heard else await asyncio.shield(gone)

        work = asyncio.ensure_future(self._app(scope, replay, send))
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            self._on_worker_gone()
        gone.cancel()
        await work

    def idle_seconds(self) -> float:
        """Time since the last client was answered; zero while one is."""
        return 0.0 if self.clients else self._clock.monotonic() - self._last


def _mortal(verb: str, send: Send) -> Send:
    """A plane that may die when it hears `verb`, or when it has done it and not yet answered."""
    crash.point(f"plane-hears-{verb}")

    async def answer(message: Message) -> None:
        crash.point(f"plane-answers-{verb}")
        await send(message)

    return answer
