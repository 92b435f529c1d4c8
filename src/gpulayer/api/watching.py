"""The routes for whoever watches a plane: is it well, can it take work, what are its figures,
what can it be asked.

`healthz` takes the road of every job: a write through the one writer, then a read. It costs one
empty transaction a second at most, however often and by whomever it is asked.
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from threading import Lock
from typing import Any

from gpulayer.api import metrics
from gpulayer.api.answers import Call, Parked, Raw
from gpulayer.clock import SystemClock
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.errors import GPULayerError

HEALTH_SECONDS = 5.0
"""A writer that takes longer is stuck."""
FRESH_SECONDS = 1.0
_TOPIC = "health"
_GOING = "this plane is ending or handing over"


class Watching:
    """Part of `handlers.Handlers`."""

    _plane: ControlPlane

    def __init__(self) -> None:
        self.answered = metrics.Answered()
        """Counted by the server, on its one thread."""
        self._clock = SystemClock()
        self._probing = Lock()
        self._probe: Future[int] | None = None
        self._probed = float("-inf")

    def healthz(self, call: Call) -> Any:
        """503 where the queue cannot be written or read in time."""
        return self._examined(is_ready=True)

    def readyz(self, call: Call) -> Any:
        """The same, and 503 too while the plane is going: another is, or will be, in its place."""
        return self._examined(is_ready=self._plane.wakeups.is_open)

    def metrics(self, call: Call) -> Any:
        told = metrics.text(self._plane.measures(), self.answered, self._plane.wakeups.waiting())
        return Raw(told.encode(), {"Content-Type": metrics.CONTENT_TYPE})

    def openapi(self, call: Call) -> Any:
        from gpulayer.api import openapi  # read by few, and most planes by nobody

        return Raw(openapi.text(), {"Content-Type": "application/json"})

    def docs(self, call: Call) -> Any:
        from gpulayer.api import openapi

        policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy}
        return Raw(openapi.page(), headers)

    def _examined(self, *, is_ready: bool) -> Parked:
        probe = self._fresh_probe()
        wakeups = self._plane.wakeups
        probe.add_done_callback(lambda _: wakeups.publish(_TOPIC))

        def look(last: bool) -> Raw | None:
            if not (probe.done() or last):
                return None
            if not probe.done() and wakeups.is_open:
                return _report("stuck", f"no write was done within {HEALTH_SECONDS:g} s")
            if not probe.done():  # nothing parks any more
                return _report("going", _GOING)
            error = probe.exception()
            if error is not None:
                return _report("failing", str(error))
            if not is_ready:
                return _report("going", _GOING)
            return _report("ok", "", queued=probe.result())

        return Parked((_TOPIC,), HEALTH_SECONDS, look)

    def _fresh_probe(self) -> Future[int]:
        with self._probing:
            now, probe = self._clock.monotonic(), self._probe
            is_old = now - self._probed >= FRESH_SECONDS
            if probe is None or (probe.done() and is_old):
                self._probed = now
                probe = self._probe = self._begun()
            return probe

    def _begun(self) -> Future[int]:
        try:
            return self._plane.probe()
        except GPULayerError as error:
            failed: Future[int] = Future()
            failed.set_exception(error)
            return failed


def _report(status: str, why: str, **facts: Any) -> Raw:
    body = {"status": status, **({"why": why} if why else {}), **facts}
    data = json.dumps(body, separators=(",", ":")).encode()
    return Raw(data, {"Content-Type": "application/json"}, status=200 if status == "ok" else 503)
