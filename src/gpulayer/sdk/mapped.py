"""The results of a map: one array job, read as often as one likes and from any process.

A `Map` holds nothing but the ids of its jobs; what came of them is at the plane. So it can be had
again with `gl.job(ID).results()` when the program that began it is gone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gpulayer.clock import SystemClock
from gpulayer.contracts.elements import grid_of
from gpulayer.errors import UsageError
from gpulayer.sdk.elements import Element, ended, in_state
from gpulayer.sdk.progress import Progress, on_terminal

if TYPE_CHECKING:
    from gpulayer.sdk.job import Job

_FAILED = ("failed", "timed_out", "cancelled")


class Map:
    """Iterating gives what the function returned for each item, as soon as it is there, and raises
    where an item failed; with `return_exceptions` the exception takes the value's place. In the
    order of the items, or with `in_order=False` as they end.

    While it waits, one line on a terminal tells how far it is, unless `progress` is False. Ctrl-C
    while it waits cancels the job; to stop iterating does not. Any number of threads may iterate,
    each from the first item on; memory holds a thousand results, or 4 MiB of them.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        in_order: bool = True,
        return_exceptions: bool = False,
        progress: bool | None = None,
        size: int = 0,
    ) -> None:
        """`jobs`: the array, behind it each array of those that had failed. None: no items."""
        self._jobs = list(jobs)
        self._in_order = in_order
        self._return_exceptions = return_exceptions
        self._progress = progress
        self._size = size

    @property
    def job(self) -> Job | None:
        """The array; after `resume` that of what is tried again. None where there are no items."""
        return self._jobs[-1] if self._jobs else None

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        for element in self._read(by_end=not self._in_order):
            error = element.exception() if self._return_exceptions else None
            yield element.result() if error is None else error

    def elements(self, *, timeout: float | None = None) -> Iterator[Element]:
        """The elements in the order of the items, each once it has ended. Raises TimeoutError
        where one has not so many seconds after this call."""
        end = None if timeout is None else SystemClock().monotonic() + timeout
        return self._read(by_end=False, end=end)

    def as_completed(self, *, timeout: float | None = None) -> Iterator[Element]:
        """The elements in the order in which they end: each with its `index`, `state`, `result()`,
        `exception()` and `logs()`."""
        end = None if timeout is None else SystemClock().monotonic() + timeout
        return self._read(by_end=True, end=end)

    def wait(self) -> Map:
        """Wait until all have ended, however."""
        if self._jobs:
            self._jobs[-1].wait()
        return self

    def failed(self) -> list[Element]:
        """The elements that did not succeed, by index, once all have ended."""
        if not self._jobs:
            return []
        job = self._jobs[-1].wait()
        return sorted(in_state(job, *_FAILED), key=attrgetter("index"))

    def resume(self) -> Map:
        """Give those that did not succeed out again, in a new job, once all have ended; the others
        keep their results. Returns itself."""
        if self._jobs and self._jobs[-1].wait().status != "succeeded":
            self._jobs.append(self._jobs[-1].retry())
        return self

    def cancel(self) -> None:
        """Ask for the end of what runs; what waits never begins."""
        if self._jobs:
            self._jobs[-1].cancel()

    def __repr__(self) -> str:
        return f"<Map of {self._size} items{f', job {self.job.id}' if self.job else ''}>"

    def _read(self, *, by_end: bool, end: float | None = None) -> Iterator[Element]:
        if not self._jobs:
            return
        *before, last = self._jobs
        bar = on_terminal(last.name, self._progress)
        parts = [in_state(job, "succeeded") for job in before if job.status != "succeeded"]
        parts.append(_shown(ended(last, by_end=by_end, end=end, progress=bar), bar))
        whole = iter(part for one in parts for part in one)
        if not by_end and before:
            whole = heapq.merge(*parts, key=attrgetter("index"))
        try:
            yield from whole
        except (Exception, GeneratorExit):
            raise
        except BaseException:
            last.cancel()
            raise


def of_job(job: Job, **how: Any) -> Map:
    """The map of which the job is the array, or the newest array of those that had failed."""
    found = job.refresh()
    if not found.get("array"):
        raise UsageError(
            "usage",
            f"{job.id} is no array: it has one result",
            hint=f"gpulayer result {job.id}",
            job_id=job.id,
        )
    jobs = [job]
    while (earlier := jobs[0].refresh().get("retry_of")) is not None:
        jobs.insert(0, job._client.job(earlier))
    return Map(jobs, size=grid_of(found["spec"]).size, **how)


def _shown(elements: Iterator[Element], bar: Progress | None) -> Iterator[Element]:
    """With the line away whenever somebody else may write."""
    try:
        for element in elements:
            if bar is not None:
                bar.clear()
            yield element
    finally:
        if bar is not None:
            bar.clear()
