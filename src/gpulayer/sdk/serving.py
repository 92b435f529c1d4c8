"""A plane at work on an event loop: serves, watches, leaves.

Each second it looks whether its folder is still there and whether anybody still needs it. It ends
by itself when idle (no client call, no unfinished job), when told to stop, when its folder is
gone, or when it has handed over. Whatever the end, parked calls are answered at once, requests in
flight are waited for, and the database is closed before anything of the seat is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from gpulayer.api.listener import Listener
from gpulayer.api.strangers import Limits
from gpulayer.clock import Clock
from gpulayer.errors import GPULayerError
from gpulayer.sdk.gate import Gate
from gpulayer.sdk.seat import Seat
from gpulayer.sdk.warden import Warden

if TYPE_CHECKING:
    from gpulayer.sdk.plane_host import Front

LOG = logging.getLogger("gpulayer.plane")
LOOK_SECONDS = 1.0
AGENT_LEAVES_SECONDS = 3.0
SETTLED_SECONDS = 3.0
"""How long a call that has begun may hold up the end: an upload, say."""
SETTLE_SECONDS = 0.02


class Service(Protocol):
    """The plane without its socket; `sdk.wiring` makes the real one."""

    @property
    def app(self) -> Any:
        """The ASGI application."""

    def unfinished(self) -> int:
        """Jobs that have not ended."""

    def tick(self) -> None:
        """The plane's own periodic work. Called each second on a thread; safe twice."""

    def collect(self) -> None:
        """Remove what is past the limits of what is kept. Never raises what the store does."""

    def wake(self) -> None:
        """Answer every parked call now, and each one to come."""

    def dismiss(self) -> None:
        """Tell the agent to leave, with its supervisor."""

    def close(self) -> None:
        """Commit all that was accepted and close the database. Twice-safe."""


class Ending(Enum):
    IDLE = "idle"
    STOPPED = "stopped"
    FOLDER_GONE = "folder gone"
    HANDED_OVER = "handed over"


class Serving:
    """One plane. All methods belong to its loop's thread, except `stop_soon`."""

    def __init__(
        self,
        seat: Seat,
        open_service: Callable[[], Service],
        clock: Clock,
        idle_seconds: float,
        warden: Warden,
        front: Front | None = None,
    ) -> None:
        """`front`: where strangers may knock besides the seat's own socket."""
        self._front = front
        self.seat = seat
        self._open_service = open_service
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._warden = warden
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[Ending] = self._loop.create_future()
        self.service: Service | None = None
        self._complained = ""
        self._gate: Gate | None = None
        self._listener: Listener | None = None

    async def open(self) -> None:
        """Open the database and accept. Raises what the store raises; again after `pause`."""
        service = await asyncio.to_thread(self._open_service)
        self.service = service
        self._gate = Gate(service.app, self._clock, self._worker_gone)
        self._listener = Listener(self._gate)
        await self._listener.open(self.seat.bind())
        if self._front is not None:
            await self._listener.open_to_strangers(self._front.sock, self._front.tls, Limits())

    async def run(self) -> Ending:
        """Serve until there is a reason to end, and end in good order."""
        watch = asyncio.create_task(self._watch())
        try:
            ending = await self._ending
        finally:
            watch.cancel()
        if ending is Ending.IDLE:
            await self._collect()
        if ending in (Ending.IDLE, Ending.STOPPED):
            await self._leave()
        if ending is not Ending.HANDED_OVER:
            await self.pause()
        return ending

    def end(self, ending: Ending) -> None:
        """Have `run` return. The first reason counts."""
        if not self._ending.done():
            self._ending.set_result(ending)

    def stop_soon(self) -> None:
        """`end(STOPPED)` from any thread."""
        self._loop.call_soon_threadsafe(self.end, Ending.STOPPED)

    def hand_over_soon(self) -> None:
        """`end(HANDED_OVER)` from any thread, once the call being answered is answered."""
        self._loop.call_soon_threadsafe(self.end, Ending.HANDED_OVER)

    async def reopen(self) -> None:
        """Serve again after `pause`, when a hand-over came to nothing; then `run` again."""
        self._ending = self._loop.create_future()
        await self.open()

    async def pause(self) -> None:
        """Turn callers away, answer those in flight, close the database. The listening socket
        stays open and its backlog fills; `open` serves it again."""
        if self.service is None or self._gate is None or self._listener is None:
            return
        self._gate.is_closing = True
        self.service.wake()
        await self._listener.close()
        await asyncio.to_thread(self.service.close)
        self.service = self._gate = self._listener = None

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self.seat.is_in_place():
                self.end(Ending.FOLDER_GONE)
            elif self.service is not None:
                self._warden.look()
                try:
                    await asyncio.to_thread(self.service.tick)
                    if self._is_idle() and await self._nobody_comes():
                        self.end(Ending.IDLE)
                except GPULayerError as error:
                    self._complain(error)  # the store is away or full: the next look tries again
                else:
                    self._complained = ""

    def _complain(self, error: GPULayerError) -> None:
        """Once for as long as it lasts."""
        if self._complained != error.code:
            LOG.error("%s: %s %s", error.code, error, error.why)
        self._complained = error.code

    async def _collect(self) -> None:
        """Nobody waits for anything now."""
        if self.service is not None:
            await asyncio.to_thread(self.service.collect)

    def _worker_gone(self) -> None:
        """A dying process closes its connection and its lock one after the other."""
        self._loop.call_later(SETTLE_SECONDS, self._warden.look)

    def _is_idle(self) -> bool:
        gate, service = self._gate, self.service
        if gate is None or service is None or gate.idle_seconds() < self._idle_seconds:
            return False
        return service.unfinished() == 0

    async def _leave(self) -> None:
        """Where no job needs them, agent and supervisor go first: the agent hears it by the call
        that it has parked here, so the plane must still answer it, and nobody else."""
        self.seat.unlink()
        if self._gate is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gate.turn_clients_away(), SETTLED_SECONDS)
        if self.service is not None and self._is_empty(self.service):
            self._warden.rest()
            self.service.dismiss()
            end = self._loop.time() + AGENT_LEAVES_SECONDS
            while self._warden.agent_lives() and self._loop.time() < end:
                await asyncio.sleep(0.01)

    def _is_empty(self, service: Service) -> bool:
        """Whether no job has not ended; a store that cannot be asked may hold some."""
        try:
            return service.unfinished() == 0
        except GPULayerError as error:
            self._complain(error)
            return False

    async def _nobody_comes(self) -> bool:
        """Take the path away and look once more: a client may have connected just before. Then
        the path is put back."""
        gate = self._gate
        assert gate is not None
        assert self._listener is not None
        served = gate.served
        self.seat.unlink()
        for _ in range(3):
            await asyncio.sleep(0.01)
        if gate.served == served and gate.clients == 0:
            return True
        await self._listener.open(self.seat.rebind())
        return False
