"""A job's log as it comes, read by a thread and taken by a loop that waits for other things too.

One parked call at a time, on a connection of its own; the next is made once the loop has taken
what the last one brought, so that a reader that stops holds the log back and nothing piles up.
A server that cannot be reached is news, and is asked again from the same offset until it is back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.errors import GPULayerError
from gpulayer.runtime import segments
from gpulayer.sdk.away import LOST_SECONDS, asked_until_back

T = TypeVar("T")

PARK_SECONDS = 25.0


class News(NamedTuple):
    records: Sequence[segments.Record] = ()
    job: dict[str, Any] | None = None
    """The job as it ended, after its last record."""
    lost: GPULayerError | None = None
    """The server is away since now; it is asked again."""
    is_back: bool = False
    error: GPULayerError | None = None
    """There is nothing more to come: what the server answered, or that it stayed away."""


class LogFeed:
    """`fileno` is readable when there is news; `take` it then. Close when done."""

    def __init__(self, wire: Wire, job_id: str, *, lost_seconds: float = LOST_SECONDS) -> None:
        """`wire` is the thread's alone from here on."""
        self._wire = wire
        self._job_id = job_id
        self._lost_seconds = lost_seconds
        self._news: News | None = None
        self._taken = threading.Event()
        self._closed = threading.Event()
        self._read, self._write = os.pipe2(os.O_CLOEXEC)
        self._offset = ""
        self._reader = segments.Reader()
        self._thread = threading.Thread(target=self._run, name="gpulayer-log", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._read

    def take(self) -> News:
        os.read(self._read, 1)
        news = self._news
        assert news is not None
        self._taken.set()
        return news

    def close(self) -> None:
        """Return once the thread has ended. Twice-safe."""
        self._closed.set()
        while self._thread.is_alive():
            self._taken.set()
            self._wire.abandon()
            self._thread.join(0.05)
        if self._read >= 0:
            os.close(self._read)
            os.close(self._write)
            self._read = -1

    def _run(self) -> None:
        try:
            is_whole = False
            while not is_whole:
                is_whole = self._reached(self._more)
            self._tell(News(job=self._reached(self._end)))
        except GPULayerError as error:
            self._tell(News(error=error))

    def _reached(self, ask: Callable[[], T]) -> T:
        return asked_until_back(
            ask,
            self._closed,
            on_lost=lambda error: self._tell(News(lost=error)),
            on_back=lambda: self._tell(News(is_back=True)),
            lost_seconds=self._lost_seconds,
        )

    def _more(self) -> bool:
        """Bring what there is now, or what comes while the call is parked; whether it was all."""
        path = job_path(self._job_id, "logs", offset=self._offset, wait=PARK_SECONDS)
        reply = self._wire.request("GET", path, park=PARK_SECONDS)
        if records := list(self._reader.feed(reply.data)):
            self._tell(News(records))
        self._offset = reply.headers["x-gpulayer-next"]
        return reply.headers["x-gpulayer-eof"] == "1"

    def _end(self) -> dict[str, Any]:
        while True:
            path = job_path(self._job_id, wait=PARK_SECONDS, until="finished")
            job: dict[str, Any] = self._wire.call("GET", path, park=PARK_SECONDS)
            if job["finished_at"] is not None:
                return job

    def _tell(self, news: News) -> None:
        if not self._closed.is_set():
            self._taken.clear()
            self._news = news
            os.write(self._write, b"!")
            self._taken.wait()
