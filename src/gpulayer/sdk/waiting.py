"""Connecting to a process that is just being started: the one place that polls.

A daemon's socket appears when it listens. Whoever spawned it is told through a pipe; anybody else
can only look, every few milliseconds, for as long as somebody is starting it.
"""

from __future__ import annotations

import select
from collections.abc import Callable

from gpulayer.clock import SystemClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

LOOK_SECONDS = 0.01


def connect_when_there(
    connect: Callable[[], T],
    wait_seconds: float,
    who: str,
    where: str,
    *,
    on_nobody: Callable[[], object] = lambda: None,
) -> T:
    """What `connect` returns, tried again while nobody listens. A full backlog is somebody.
    `on_nobody` is called before each further try.

    Raises `plane-unreachable` after `wait_seconds`.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + wait_seconds
    while True:
        try:
            return connect()
        except (FileNotFoundError, ConnectionError, BlockingIOError) as error:
            if clock.monotonic() >= deadline:
                raise unreachable(f"{who} does not answer", where, str(error)) from error
        on_nobody()
        look_again()


def look_again() -> None:
    """Pause between two looks."""
    select.select((), (), (), LOOK_SECONDS)


def unreachable(message: str, where: str, why: str, code: str = "plane-unreachable") -> Exception:
    from gpulayer.errors import UnreachableError

    return UnreachableError(code, message, where=where, why=why, hint="gpulayer doctor")
