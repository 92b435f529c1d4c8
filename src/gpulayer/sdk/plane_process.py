"""The local plane's process: `python -I -c ... HOME RUNTIME STATE BULK [--takeover]`.

The order of its start is the point of it. Lock, bind, listen and rename come first, then agent and
supervisor are started, and only then is the web stack imported: clients already wait in the
listener's backlog. One line into descriptor 3 tells the starter how it went. A candidate that finds
the home held waits until its holder answers, and ends well.

With `--takeover` everything is imported first, and the seat is asked for (`sdk.handover`); where
nobody has it, nothing is started.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpulayer.clock import SystemClock
from gpulayer.errors import GPULayerError
from gpulayer.runtime import crash
from gpulayer.sdk import local, siblings, waiting
from gpulayer.sdk.disk import disk_error
from gpulayer.sdk.places import Places
from gpulayer.sdk.seat import HELD_SECONDS, Seat, silent_holder

if TYPE_CHECKING:
    from gpulayer.sdk.handover import Claim

TOLD = 3
"""Descriptor of the starter's pipe."""


def main() -> None:
    """Returns when the plane has ended in good order."""
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # looking for any is 8 ms of the first job
    words = sys.argv[1:]
    places, flags = Places.from_argv(words[:4]), words[4:]
    try:
        claim = _claim(places) if "--takeover" in flags else None
        if claim is None and "--takeover" in flags:
            return  # it has been stopped meanwhile, and nobody asks for another
        seat = claim.receive() if claim is not None else None
        if seat is None:
            claim = None
            seat = _take(places)
        if seat is None:
            _tell({"ok": True})
            return
        crash.point("plane-locked")
        _serve(places, seat, claim)
    except FileNotFoundError:
        return  # the home was deleted
    except GPULayerError as error:
        _tell({"error": error.to_json()})
    except OSError as error:
        _tell({"error": disk_error(error, places.home).to_json()})
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        fault = GPULayerError("plane-start-failed", "the local plane could not start", why=what)
        _tell({"error": fault.to_json()})
        raise


def _claim(places: Places) -> Claim | None:
    """Ask who holds the home for it; None when nobody answers."""
    import gpulayer.sdk.wiring  # noqa: F401  before asking: nothing may delay who has agreed
    from gpulayer.sdk.handover import Claim

    try:
        return Claim(places, "local")
    except OSError:
        return None


def _take(places: Places) -> Seat | None:
    """The seat; None when somebody else has it and answers."""
    clock = SystemClock()
    deadline = clock.monotonic() + HELD_SECONDS
    while True:
        seat = Seat.take(places)
        if seat is not None:
            return seat
        if local.answers(places.plane_socket):
            return None
        if clock.monotonic() > deadline:
            raise silent_holder(places)
        waiting.look_again()


def _serve(places: Places, seat: Seat, claim: Claim | None) -> None:
    seat.announce("local")
    seat.bind()
    crash.point("plane-bound")
    started = [siblings.begin_agent(places)]
    if not local.answers(places.supervisor_socket):
        started.append(siblings.begin_supervisor(places))
    import asyncio

    from gpulayer.sdk.plane_host import PlaneHost

    for has_left in started:
        has_left()
    asyncio.run(PlaneHost(places, seat, claim).run(lambda _: _tell({"ok": True})))


def _tell(word: Mapping[str, Any]) -> None:
    """To the starter, who may have gone."""
    try:
        os.write(TOLD, json.dumps(word).encode() + b"\n")
        os.close(TOLD)
    except OSError:
        pass
