"""The socket of an embedded plane: other terminals look at its jobs as at those of any plane.

The web stack is loaded here, on a thread of its own, after the program has gone on; callers wait in
the listener's backlog meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from gpulayer.clock import SystemClock
from gpulayer.sdk.seat import Seat

if TYPE_CHECKING:
    from gpulayer.sdk.wiring import Wired


class Door:
    """Opened once, closed once, by any thread. The seat stays its owner's."""

    def __init__(self, seat: Seat, wired: Wired) -> None:
        self._seat = seat
        self._wired = wired
        self._closing = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="gpulayer-door", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Turn callers away and answer those in flight. Parked calls must have been woken, or be
        about to be. Twice-safe."""
        self._closing.set()
        if self._loop is not None and self._told is not None:
            try:
                self._loop.call_soon_threadsafe(self._told.set)
            except RuntimeError:
                pass  # its loop has ended
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        from gpulayer.api.listener import Listener
        from gpulayer.sdk.gate import Gate

        self._told, self._loop = asyncio.Event(), asyncio.get_running_loop()
        gate = Gate(self._wired.app, SystemClock())
        listener = Listener(gate)
        await listener.open(self._seat.bind())
        if not self._closing.is_set():
            await self._told.wait()
        gate.is_closing = True
        self._wired.wake()
        await listener.close()
