"""`gl.Executor`: jobs behind the interface of `concurrent.futures` (PEP 3148), for programs that
have it. A call is a job, and a `map` one array.

The futures are those of `concurrent.futures`, so its `wait` and `as_completed` take them. Callbacks
run in the thread that hears of the end, as there.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from gpulayer.errors import JobError
from gpulayer.sdk.describe import require_known
from gpulayer.sdk.elements import Element
from gpulayer.sdk.failures import RemoteError
from gpulayer.sdk.job import Job
from gpulayer.sdk.mapped import Map
from gpulayer.sdk.remote import RemoteFunction


class JobFuture(concurrent.futures.Future[Any]):
    """The future of one call, and its `job`."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job

    def cancel(self) -> bool:
        """Whether it will not run: a call that has begun goes on, and `job.cancel()` ends it."""
        if self.done() or self.job.status != "queued":
            return self.cancelled()
        self.job.cancel()
        return self._is_cancelled_now() or self.cancelled()

    def running(self) -> bool:
        """Whether a worker has it."""
        return not self.done() and self.job.status in ("scheduled", "running")

    def settle(self, ended: concurrent.futures.Future[Any]) -> None:
        """As its job ended. Called once, by the thread that heard of it."""
        error = ended.exception()
        with suppress(concurrent.futures.InvalidStateError):  # it was cancelled meanwhile
            if error is None:
                self.set_result(ended.result())
            elif getattr(error, "code", "") == "cancelled":
                self._is_cancelled_now()
            else:
                self.set_exception(raised(error))

    def _is_cancelled_now(self) -> bool:
        """Mark it, and tell who waits; once."""
        if self.done() or not super().cancel():
            return False
        with suppress(RuntimeError):  # another thread has told already
            self.set_running_or_notify_cancel()
        return True


class Executor(concurrent.futures.Executor):
    """Runs calls as jobs with the given options, those of `gl.remote`. As many run at one time as
    there is room for. Any thread may use it; as a context manager it waits for all at its end.

    What a function raised is raised here as the exception that it was, where it is one of Python's
    own, with the job's failure as its `__cause__`; else the failure is raised. Jobs that were
    submitted go on when the program ends without waiting for them.
    """

    def __init__(self, **options: Any) -> None:
        require_known(options)
        self._options = options
        self._lock = threading.Lock()
        self._is_open = True
        self._functions: dict[Any, RemoteFunction[..., Any]] = {}
        self._unfinished: set[JobFuture] = set()
        self._maps: list[Map] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> JobFuture:
        """Queue the call as a job. Raises RuntimeError after `shutdown`, and UsageError where the
        function or an argument cannot travel."""
        function = self._open_for(fn)
        future = JobFuture(function._submit((args, kwargs)))
        with self._lock:
            self._unfinished.add(future)
        future.add_done_callback(self._forget)
        future.job.future().add_done_callback(future.settle)
        return future

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Any,
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[Any]:
        """The results in the order of the items, of one array that is submitted before this
        returns. `timeout`: TimeoutError where one is not there so many seconds after this call.
        Whatever ends the iteration early cancels what has not ended. `chunksize` means nothing
        here: the plane hands elements out as fast as they are done.
        """
        function = self._open_for(fn)
        mapped = function.map(*iterables, progress=False)
        with self._lock:
            self._maps = [one for one in self._maps if one.job and not one.job.done()] + [mapped]
        return _results(mapped, mapped.elements(timeout=timeout))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. `wait`: return once all have ended. `cancel_futures`: those that have
        not begun never do; of a map, what runs is ended too."""
        with self._lock:
            self._is_open = False
            unfinished, maps = list(self._unfinished), list(self._maps)
        if cancel_futures:
            for future in unfinished:
                future.cancel()
            for mapped in maps:
                mapped.cancel()
        if wait:
            concurrent.futures.wait(unfinished)
            for mapped in maps:
                mapped.wait()

    def _open_for(self, fn: Callable[..., Any]) -> RemoteFunction[..., Any]:
        with self._lock:
            if not self._is_open:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if fn not in self._functions:
                known = fn if isinstance(fn, RemoteFunction) else RemoteFunction(fn, {})
                self._functions[fn] = known.options(**self._options)
            return self._functions[fn]

    def _forget(self, future: concurrent.futures.Future[Any]) -> None:
        with self._lock:
            self._unfinished.discard(future)


def raised(error: BaseException) -> BaseException:
    """What the function itself raised, with the failure as its cause."""
    cause = error.__cause__
    if not isinstance(error, JobError) or cause is None or isinstance(cause, RemoteError):
        return error
    error.__cause__ = None
    cause.__cause__ = error
    return cause


def _results(mapped: Map, elements: Iterator[Element]) -> Iterator[Any]:
    is_over = False
    try:
        for element in elements:
            try:
                value = element.result()
            except JobError as error:
                failure = raised(error)
                raise failure from failure.__cause__
            yield value
        is_over = True
    finally:
        if not is_over:
            mapped.cancel()
