"""One thread per client that waits for all its jobs at once.

The plane numbers the ends of a session's jobs, so one parked call brings whatever has ended since
the last one, in order, with its result. Jobs of other sessions are waited for one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from gpulayer.errors import UnreachableError
from gpulayer.sdk.gathering import gather_seconds

if TYPE_CHECKING:
    from gpulayer.sdk.client import Client
    from gpulayer.sdk.job import Job

PARK_SECONDS = 25.0
LINGER_SECONDS = 5.0
"""How long the thread stays when nothing is watched: calls often come one after another."""
REMEMBERED = 4_096
"""Ends that are kept for who asks late; older ones are asked for again."""


class Watcher:
    """Resolves futures of jobs. The thread starts with the first and ends a while after the last
    one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Condition()
        self._expected: set[str] = set()
        """Jobs of this session whose end has not come."""
        self._watched: dict[str, list[tuple[Job, Future[Any]]]] = {}
        self._ended: dict[str, dict[str, Any]] = {}
        self._thread: threading.Thread | None = None
        self._cursor: int | None = None
        """Number of the last end that was seen."""
        self._closed = threading.Event()

    def expect(self, job_ids: Iterable[str], after: int) -> None:
        """Jobs that were just submitted; their ends have numbers above `after`."""
        with self._lock:
            if self._cursor is None:
                self._cursor = after
            self._expected.update(job_id for job_id in job_ids if job_id not in self._ended)

    def watch(self, job: Job) -> Future[Any]:
        """A future for `job`, resolved by the watching thread. The job cannot be cancelled
        through it."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            found = self._ended.get(job.id)
            is_expected = found is None and job.id in self._expected
            if is_expected:
                self._watched.setdefault(job.id, []).append((job, future))
                self._begin()
        if found is not None:
            job.settle(found, future)
        elif not is_expected:
            self._wait_alone(job, future)
        return future

    def close(self) -> None:
        """Stop; whoever still waits gets an error. The jobs go on."""
        self._closed.set()
        with self._lock:
            self._lock.notify_all()
        self._fail(
            UnreachableError(
                "plane-unreachable",
                "this client was closed while the job went on",
                hint="gpulayer ps",
            )
        )

    def _begin(self) -> None:
        self._lock.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gpulayer-watcher", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                ended = self._next()
            except Exception as error:
                self._fail(error)
                return
            for found in ended:
                for job, future in self._came(found):
                    job.settle(found, future)
            if gathering := gather_seconds(len(self._watched)):
                self._closed.wait(gathering)
            with self._lock:
                if not self._watched and not self._lock.wait_for(self._is_wanted, LINGER_SECONDS):
                    self._thread = None
                    return

    def _is_wanted(self) -> bool:
        return bool(self._watched) or self._closed.is_set()

    def _next(self) -> list[dict[str, Any]]:
        query = f"session={self._client.session}&after={self._cursor or 0}&wait={PARK_SECONDS}"
        reply = self._client.call("GET", f"/v1/results?{query}", park=PARK_SECONDS)
        self._cursor = reply["next"]
        return list(reply["jobs"])

    def _came(self, found: dict[str, Any]) -> list[tuple[Job, Future[Any]]]:
        with self._lock:
            self._expected.discard(found["id"])
            self._ended[found["id"]] = found
            if len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]
            return self._watched.pop(found["id"], [])

    def _fail(self, error: Exception) -> None:
        with self._lock:
            watched, self._watched, self._thread = self._watched, {}, None
        for waiting in watched.values():
            for _, future in waiting:
                future.set_exception(error)

    def _wait_alone(self, job: Job, future: Future[Any]) -> None:
        if self._settled(job, future, 0.0):
            return

        def wait() -> None:
            while not self._settled(job, future, PARK_SECONDS):
                pass

        threading.Thread(target=wait, name="gpulayer-wait", daemon=True).start()

    def _settled(self, job: Job, future: Future[Any], seconds: float) -> bool:
        """Whether that job has ended within these seconds, or cannot be asked for."""
        try:
            path = self._client.path(job.id, wait=seconds, until="finished")
            found = self._client.call("GET", path, park=seconds)
        except Exception as error:
            future.set_exception(error)
            return True
        if found["finished_at"] is not None:
            job.settle(found, future)
        return found["finished_at"] is not None
