"""What a handler is given and what it may answer, apart from how both travel.

A handler answers with a JSON value, with `Raw` bytes, with a future of one (a write that is not
committed yet), or with `Parked`: not yet, ask again when one of these topics is woken. The server
waits with asyncio, an embedded plane with threads; the handlers are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from gpulayer.clock import SystemClock
from gpulayer.contracts.principals import LOCAL, Principal
from gpulayer.control_plane.wakeups import Wakeups

PARK_SECONDS = 60.0
"""Longest that a call is held."""
_LARGEST = (1 << 63) - 1
_DIGITS = len(str(_LARGEST)) + 1


@dataclass(frozen=True, slots=True)
class Call:
    """One request, already parsed."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any = None
    """JSON value of a JSON route, bytes of a log route, a file's path of an upload."""
    principal: Principal = LOCAL
    """As whom it is made; what it may do was decided before."""
    address: str = ""
    """Where it came from."""
    streams: bool = False
    """Whether live data is asked for, as server-sent events."""
    last_id: str = ""
    """Of the newest message that the reader of such a stream has."""
    start: int = 0
    """First byte that is wanted of a file."""

    def seconds(self, name: str, most: float) -> float:
        """A duration of the query, 0 when absent or malformed, at most `most`."""
        try:
            asked = float(self.query.get(name, 0) or 0)
        except ValueError:
            return 0.0
        return min(asked, most) if asked > 0 else 0.0  # NaN is malformed

    def after(self, name: str) -> int:
        """Where a reader goes on: behind the newest message it has, else where the query says."""
        if self.last_id.isascii() and self.last_id.isdigit():
            return min(int(self.last_id[:_DIGITS]), _LARGEST)
        return self.number(name)

    def cursor(self, name: str) -> str:
        """The same for a log, whose places are no single numbers."""
        return self.last_id or self.query.get(name, "")

    def number(self, name: str, default: int = 0) -> int:
        """A whole number of the query; not negative, and one that the store can hold."""
        text = self.query.get(name, "")
        if not (text.isascii() and text.isdigit()):
            return default
        return min(int(text[:_DIGITS]), _LARGEST)


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes instead of JSON. With `file` the bytes are that open file's; who sends it closes it."""

    data: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    file: BinaryIO | None = None
    status: int = 200


@dataclass(frozen=True, slots=True)
class Parked:
    """An answer that may not be there yet.

    `look(last)` reads the truth and answers, or None to go on waiting; when the time is up or the
    plane is leaving it is asked once more with `last` set, and must answer.
    """

    topics: tuple[str, ...]
    seconds: float
    look: Callable[[bool], Any]


async def settle(answer: Any, wakeups: Wakeups) -> Any:
    """The final answer, waiting in asyncio."""
    while True:
        if isinstance(answer, Future):
            answer = await asyncio.wrap_future(answer)
        elif isinstance(answer, Parked):
            answer = await _parked(answer, wakeups)
        else:
            return answer


def settle_blocking(answer: Any, wakeups: Wakeups) -> Any:
    """The final answer, waiting in the calling thread."""
    while True:
        if isinstance(answer, Future):
            answer = answer.result()
        elif isinstance(answer, Parked):
            answer = _parked_blocking(answer, wakeups)
        else:
            return answer


async def _parked(parked: Parked, wakeups: Wakeups) -> Any:
    loop = asyncio.get_running_loop()
    end = loop.time() + parked.seconds
    while True:
        with wakeups.subscribe(*parked.topics) as ticket:
            left = end - loop.time()
            is_last = left <= 0 or not wakeups.is_open
            answer = parked.look(is_last)
            if answer is not None or is_last:
                return answer
            woken = asyncio.wrap_future(ticket.future)
            await asyncio.wait((woken,), timeout=left)


def _parked_blocking(parked: Parked, wakeups: Wakeups) -> Any:
    clock = SystemClock()
    end = clock.monotonic() + parked.seconds
    while True:
        with wakeups.subscribe(*parked.topics) as ticket:
            left = end - clock.monotonic()
            is_last = left <= 0 or not wakeups.is_open
            answer = parked.look(is_last)
            if answer is not None or is_last:
                return answer
            ticket.wait(left)
