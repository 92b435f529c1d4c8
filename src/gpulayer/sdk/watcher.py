"""One thread per client that waits for all its jobs at once.

The plane numbers the ends of a session's jobs, so one parked call brings whatever has ended since
the last one, in order, with its result. Jobs of other sessions are waited for one by one.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from gpulayer.errors import UnreachableError

if TYPE_CHECKING:
    from gpulayer.sdk.client import Client
    from gpulayer.sdk.job import Job

PARK_SECONDS = 25.0


class Watcher:
    """Resolves futures of jobs. The thread starts with the first and ends with the last one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._watched: dict[str, tuple[Job, Future[Any]]] = {}
        self._ended: dict[str, dict[str, Any]] = {}
        """Ends that came before anybody asked for them."""
        self._thread: threading.Thread | None = None
        self._cursor: int | None = None
        """Number of the last end that was seen."""
        self._is_open = True

    def begin(self, after: int) -> None:
        """Where the ends of this session's jobs begin; only the first word counts."""
        with self._lock:
            if self._cursor is None:
                self._cursor = after

    def watch(self, job: Job) -> Future[Any]:
        """A future for `job`, resolved by the watching thread. The job cannot be cancelled
        through it."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        if job.session != self._client.session:
            self._wait_alone(job, future)
            return future
        with self._lock:
            found = self._ended.pop(job.id, None)
            if found is None:
                self._watched[job.id] = (job, future)
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="gpulayer-watcher", daemon=True
                    )
                    self._thread.start()
        if found is not None:
            job.settle(found, future)
        return future

    def close(self) -> None:
        """Stop; whoever still waits gets an error. The jobs go on."""
        self._is_open = False
        self._fail(
            UnreachableError(
                "plane-unreachable",
                "this client was closed while the job went on",
                hint="gpulayer ps",
            )
        )

    def _run(self) -> None:
        while self._is_open:
            try:
                ended = self._next()
            except Exception as error:
                self._fail(error)
                return
            for found in ended:
                with self._lock:
                    watched = self._watched.pop(found["id"], None)
                    if watched is None:
                        self._ended[found["id"]] = found
                if watched is not None:
                    watched[0].settle(found, watched[1])
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return

    def _next(self) -> list[dict[str, Any]]:
        query = f"session={self._client.session}&after={self._cursor or 0}&wait={PARK_SECONDS}"
        reply = self._client.call("GET", f"/v1/results?{query}", park=PARK_SECONDS)
        self._cursor = reply["next"]
        return list(reply["jobs"])

    def _fail(self, error: Exception) -> None:
        with self._lock:
            watched, self._watched, self._thread = self._watched, {}, None
        for _, future in watched.values():
            future.set_exception(error)

    def _wait_alone(self, job: Job, future: Future[Any]) -> None:
        def wait() -> None:
            try:
                while True:
                    path = self._client.path(job.id, wait=PARK_SECONDS, until="finished")
                    found = self._client.call("GET", path, park=PARK_SECONDS)
                    if found["finished_at"] is not None:
                        job.settle(found, future)
                        return
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=wait, name="gpulayer-wait", daemon=True).start()
