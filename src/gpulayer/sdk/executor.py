"""`gl.Executor`: jobs behind the interface of `concurrent.futures` (PEP 3148), for programs that
have it. A call is a job, and a `map` one array.

The futures are those of `concurrent.futures`, so its `wait` and `as_completed` take them. Callbacks
run in the thread that hears of the end, as there.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gpulayer.errors import JobError, UsageError
from gpulayer.runtime.values import Sink
from gpulayer.sdk.describe import require_known
from gpulayer.sdk.elements import Element
from gpulayer.sdk.failures import RemoteError
from gpulayer.sdk.job import Job
from gpulayer.sdk.mapped import Map
from gpulayer.sdk.remote import RemoteFunction
from gpulayer.sdk.turns import Turns
from gpulayer.sdk.values import written_value


class JobFuture(concurrent.futures.Future[Any]):
    """The future of one call, and its `job`."""

    def __init__(self) -> None:
        super().__init__()
        self._job: Job | None = None
        self._turn = threading.Lock()
        self._is_claimed = False

    @property
    def job(self) -> Job:
        """Raises InvalidStateError while the call waits for its turn (`max_workers`)."""
        if self._job is None:
            raise concurrent.futures.InvalidStateError("it waits for its turn, and is no job yet")
        return self._job

    def claim(self) -> bool:
        """Who gets True, once, decides what becomes of it: to be submitted, or cancelled."""
        with self._turn:
            is_free, self._is_claimed = not self._is_claimed, True
            return is_free

    def begin(self, job: Job) -> None:
        """It is submitted. Called once."""
        self._job = job
        job.future().add_done_callback(self.settle)

    def cancel(self) -> bool:
        """Whether it will not run: a call that has begun goes on, and `job.cancel()` ends it."""
        if self._job is None:
            return self._is_cancelled_now() if self.claim() else self.cancelled()
        if self.done() or self.job.status != "queued":
            return self.cancelled()
        self.job.cancel()
        return self._is_cancelled_now() or self.cancelled()

    def running(self) -> bool:
        """Whether a worker has it."""
        if self.done() or self._job is None:
            return False
        return self._job.status in ("scheduled", "running")

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
    """Runs calls as jobs with the given options, those of `gl.remote`. Any thread may use it; as a
    context manager it waits for all at its end.

    `max_workers`: at most so many of the submitted calls run at one time, and so many of each
    `map`; without it, as many as there is room for. Calls that wait for their turn are no jobs yet:
    the program does not end before the last of them is one. `initializer(*initargs)` is called in
    each process before its first call, which may be its only one; what it raises, that call
    raises. It must be importable where the functions run, and of a script only for its own.

    What a function raised is raised here as the exception that it was, where it is one of Python's
    own, with the job's failure as its `__cause__`; else the failure is raised. Jobs that were
    submitted go on when the program ends without waiting for them.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        **options: Any,
    ) -> None:
        """Raises ValueError, TypeError and UsageError for what cannot be meant."""
        _require_possible(max_workers, initializer, options)
        require_known(options)
        self._most = max_workers
        self._initializer = initializer
        self._initargs = [
            written_value(f"initargs[{at}]", value, Sink()).wire
            for at, value in enumerate(initargs)
        ]
        self._turns = Turns(max_workers)
        self._options = options
        self._lock = threading.Lock()
        self._is_open = True
        self._functions: dict[Any, RemoteFunction[..., Any]] = {}
        self._unfinished: set[JobFuture] = set()
        self._maps: list[Map] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> JobFuture:
        """Queue the call as a job. Raises RuntimeError after `shutdown`, and UsageError where the
        function or an argument cannot travel."""
        begin = self._open_for(fn)._prepared((args, kwargs))
        future = JobFuture()
        self._turns.add(future, begin)
        with self._lock:
            self._unfinished.add(future)
        future.add_done_callback(self._forget)
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
        mapped = function.map(*iterables, progress=False, max_parallel=self._most)
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
                known = known.options(**self._options)
                if self._initializer is not None:
                    known = known._after(self._initializer, self._initargs)
                self._functions[fn] = known
            return self._functions[fn]

    def _forget(self, future: concurrent.futures.Future[Any]) -> None:
        with self._lock:
            self._unfinished.discard(future)


_OF_POOLS = {
    "mp_context": "workers start the processes",
    "max_tasks_per_child": "each call that is submitted has a process of its own",
    "thread_name_prefix": "calls run in processes; name= names their jobs",
}
"""What pools of processes and threads take, and why it says nothing here."""


def _require_possible(most: object, initializer: object, options: Mapping[str, Any]) -> None:
    for name, why in _OF_POOLS.items():
        if name in options:
            raise UsageError("usage", f"gl.Executor has no {name}: its calls are jobs", why=why)
    if most is not None:
        if not isinstance(most, int) or isinstance(most, bool):
            raise TypeError("max_workers must be an int")
        if most <= 0:
            raise ValueError("max_workers must be greater than 0")
    if initializer is not None and not callable(initializer):
        raise TypeError("initializer must be a callable")


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
