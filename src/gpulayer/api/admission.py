"""How much of the plane's memory submissions may hold while they are on their way.

What is past the limit is answered at once, before its body is read: 429 and when to come back (RFC
6585, RFC 9110 10.2.3). So a plane that is offered more than it can take serves what it has taken,
and each submission is either accepted or refused, never lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpulayer.errors import RefusedError

RETRY_SECONDS = 1


@dataclass(slots=True)
class Admission:
    """Belongs to the event loop's thread."""

    calls: int = 1024
    """Most submissions on their way."""
    body_bytes: int = 256 << 20
    """Most that their bodies may hold together. A single one is always let in."""
    _calls: int = 0
    _bytes: int = 0

    @contextmanager
    def entered(self, body_bytes: int) -> Iterator[None]:
        """While a submission of that size is on its way. Raises `plane-busy`."""
        is_full = self._calls >= self.calls or self._bytes + body_bytes > self.body_bytes
        if self._calls and is_full:
            raise RefusedError(
                "plane-busy",
                f"{self._calls} submissions are on their way already",
                why="the plane takes no more at the same moment",
                hint="gpulayer help plane-busy",
            )
        self._calls += 1
        self._bytes += body_bytes
        try:
            yield
        finally:
            self._calls -= 1
            self._bytes -= body_bytes
