"""The process around a plane that listens: the `Host` of its handlers, from its start to its end.

The local plane's process and `gpulayer serve` are both this one. They differ in their kind, in
whether strangers may knock (`Front`), in what is synced, and in whom they tell that they serve.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gpulayer.clock import SystemClock
from gpulayer.contracts.ids import LOCAL_WORKER
from gpulayer.errors import RefusedError
from gpulayer.runtime import crash
from gpulayer.sdk import siblings
from gpulayer.sdk.places import Places
from gpulayer.sdk.seat import Seat

if TYPE_CHECKING:
    from gpulayer.sdk.handover import Claim
    from gpulayer.sdk.serving import Serving
    from gpulayer.sdk.wiring import Wired

IDLE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Front:
    """Where strangers may knock."""

    sock: socket.socket
    """Listening."""
    tls: ssl.SSLContext | None
    facts: Mapping[str, Any]
    """For `doctor`: address, fingerprint."""
    names: Collection[str] = ()
    """By which they may call it, besides its addresses."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What makes one plane's process differ from another's."""

    name: str = "local"
    front: Front | None = None
    durability: Literal["process", "power"] = "process"
    database: str = ""
    """In place of the home's."""
    artifacts: str = ""
    """The same: a folder, or a bucket's address."""
    has_worker: bool = True
    variables: tuple[int, ...] = ()
    """For the worker, see `siblings.begin_agent`."""
    idle_seconds: float = field(
        default_factory=lambda: float(os.environ.get("GPULAYER_IDLE_SECONDS", IDLE_SECONDS))
    )

    @classmethod
    def served(cls, front: Front, **more: Any) -> Kind:
        """It stays however long nobody comes."""
        return cls("serve", front, idle_seconds=math.inf, **more)


class PlaneHost:
    """Made once the seat is taken; `run` returns when the plane has ended in good order."""

    def __init__(
        self, places: Places, seat: Seat, claim: Claim | None, kind: Kind | None = None
    ) -> None:
        """Takes `seat` as its own, and ends what `claim` began."""
        from gpulayer.sdk.wiring import folder_of, uploads_of

        self._kind = kind or Kind()
        self.kind = self._kind.name
        self.home = places.home
        self.names = () if self._kind.front is None else self._kind.front.names
        self.uploads = uploads_of(folder_of(self._kind.artifacts) or places.artifacts)
        self._places = places
        self._seat = seat
        self._claim = claim
        self._serving: Serving | None = None
        self._heir = ""

    async def run(self, tell: Callable[[Wired], None]) -> None:
        """Serve until there is a reason to end. `tell` hears it when callers are answered; what
        it raises, or what the store does, ends everything that was begun."""
        import asyncio

        from gpulayer.sdk.serving import Ending, Serving
        from gpulayer.sdk.warden import Warden
        from gpulayer.sdk.wiring import Wired

        kind, wired = self._kind, list[Wired]()

        def open_service() -> Wired:
            wired[:] = [Wired(self._places, self, kind.database, kind.durability, kind.artifacts)]
            return wired[0]

        warden = Warden(
            self._places,
            SystemClock(),
            start=lambda: siblings.start_agent(self._places, *kind.variables),
        )
        serving = Serving(
            self._seat, open_service, SystemClock(), kind.idle_seconds, warden, kind.front
        )
        self._serving = serving
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.end, Ending.STOPPED)
        if not kind.has_worker:
            warden.rest()
        try:
            await serving.open()
            if not kind.has_worker:
                _require_no_tasks(wired[0])
            tell(wired[0])
        except BaseException:
            await self._fail(serving)
            raise
        crash.point("plane-opened")
        if self._claim is not None:
            await asyncio.to_thread(self._claim.took)
        while await serving.run() is Ending.HANDED_OVER:
            if await self._hand_over(serving):
                os._exit(0)

    async def _fail(self, serving: Serving) -> None:
        """Nothing opened: give back what was taken over, or take everybody along."""
        await serving.pause()
        if self._claim is not None:
            self._seat.close()
            self._claim.give_up()
        else:
            self._seat.unlink()
            siblings.dismiss(self._places)

    # --- what the handlers ask of the process ---------------------------------------------------

    def stop(self) -> None:
        assert self._serving is not None
        self._serving.stop_soon()

    def takeover(self, wish: Mapping[str, Any]) -> Mapping[str, Any]:
        from gpulayer.sdk.handover import refusal

        why = refusal(self.kind, dict(wish))
        if self._heir:
            why = "it is handing over to another process already"
        if why:
            return {"ok": False, "why": why}
        self._heir = str(wish["socket"])
        assert self._serving is not None
        self._serving.hand_over_soon()
        return {"ok": True}

    def processes(self) -> list[dict[str, Any]]:
        from gpulayer.sdk.processes import running

        return [{"kind": kind, "pid": pid} for kind, pid in running(self._places)]

    def front(self) -> Mapping[str, Any]:
        return {} if self._kind.front is None else self._kind.front.facts

    # --- hand-over ------------------------------------------------------------------------------

    async def _hand_over(self, serving: Serving) -> bool:
        """Whether the heir has it. Otherwise this process serves again."""
        import asyncio

        from gpulayer.sdk.handover import Heir

        await serving.pause()
        crash.point("old-paused")
        try:
            given = await asyncio.to_thread(lambda: Heir(self._seat, self._heir).give())
        except OSError:
            given = False  # it went away before anything was sent
        if not given:
            self._heir = ""
            self._seat.announce(self.kind)
            await serving.reopen()
        return given


def _require_no_tasks(wired: Wired) -> None:
    """Without this machine's worker nobody could tell how they end."""
    if wired.plane.tasks_of(LOCAL_WORKER):
        raise RefusedError(
            "job-not-finished",
            "jobs run on this machine, and --no-worker would leave them alone",
            hint=("gpulayer ps", "gpulayer serve"),
        )
