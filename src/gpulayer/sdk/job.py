"""A handle on one job. It holds nothing that matters: any number of handles may name one job."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from gpulayer.contracts.states import TERMINAL_JOB_STATES
from gpulayer.errors import GPULayerError, JobError, JobTimedOutError
from gpulayer.sdk.failures import failure_of
from gpulayer.sdk.values import result_of

if TYPE_CHECKING:
    from gpulayer.sdk.client import Client
    from gpulayer.sdk.mapped import Map
    from gpulayer.sdk.reported import Point

LAST_LINES = 20
"""Lines of log that an exception carries."""


class Job:
    """One submitted job. Safe to use from any thread, and awaitable."""

    def __init__(self, client: Client, found: Mapping[str, Any]) -> None:
        self._client = client
        self._found = dict(found)
        self._is_cached = bool(found.get("cached"))
        self._future: tuple[int, Future[Any]] | None = None
        """With the process that asked for it: nobody resolves it in a forked child."""

    @property
    def id(self) -> str:
        return str(self._found["id"])

    @property
    def name(self) -> str:
        return str(self._found["name"])

    @property
    def status(self) -> str:
        """The state as the plane has it now."""
        return str(self.refresh()["state"])

    @property
    def reason(self) -> str:
        """Why it is in that state; one of `contracts.Reason`."""
        return str(self.refresh()["reason"])

    @property
    def exit_code(self) -> int | None:
        """Of an ended job, by the shell's convention; None before."""
        code = self.refresh().get("exit_code")
        return None if code is None else int(code)

    @property
    def cached(self) -> bool:
        """Whether a submission with `cache` was answered with this job, which had run before."""
        return self._is_cached

    @property
    def preparation(self) -> dict[str, Any] | None:
        """What came before its start, never part of its run: {seconds, steps: [{name, seconds,
        note}]}. None where there was nothing to prepare, or it has not ended."""
        told = self.refresh().get("preparation")
        return None if told is None else dict(told)

    def result(self, timeout: float | None = None) -> Any:
        """What the function returned, or 0 for a command; waits for it.

        Raises what `failure_of` makes of a bad end, or TimeoutError after `timeout` seconds; the
        job then goes on.
        """
        return self.future().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception that `result` would raise, or None."""
        return self.future().exception(timeout)

    def results(
        self,
        *,
        in_order: bool = True,
        return_exceptions: bool = False,
        progress: bool | None = None,
    ) -> Map:
        """Of an array or a map, what came of its elements, whoever submitted it: the same that
        `f.map` gives. Of a retry, with what had succeeded before."""
        from gpulayer.sdk.mapped import of_job

        how = {"in_order": in_order, "return_exceptions": return_exceptions, "progress": progress}
        return of_job(self, **how)

    def wait(self, timeout: float | None = None) -> Job:
        """Wait for the end, whatever it is. Raises JobTimedOutError after `timeout` seconds, and
        what keeps the end from being known, such as UnreachableError."""
        try:
            error = self.future().exception(timeout)
        except TimeoutError:
            raise JobTimedOutError(
                "timeout",
                f"{self.id} has not ended within {timeout} s; it goes on",
                hint=f"gpulayer wait {self.id}",
                job_id=self.id,
            ) from None
        if error is not None and not isinstance(error, JobError):
            raise error
        return self

    def done(self) -> bool:
        return self.refresh()["state"] in TERMINAL_JOB_STATES

    def future(self) -> Future[Any]:
        """A `concurrent.futures.Future` of the result. The same one at each call."""
        here = os.getpid()
        if self._future is None or self._future[0] != here:
            self._future = here, self._client.future_of(self)
        return self._future[1]

    def __await__(self) -> Generator[Any, None, Any]:
        from asyncio import wrap_future  # who awaits has loaded it

        return wrap_future(self.future()).__await__()

    def logs(
        self, *, follow: bool = False, rank: int | None = None, index: int | None = None
    ) -> Iterator[str]:
        """What it wrote, line by line without the line's end; stdout and stderr as they came.
        `rank`: only what that rank of a distributed job wrote."""
        return self._client.log_lines(self.id, follow=follow, rank=rank, index=index)

    def events(self) -> list[dict[str, Any]]:
        """Its story, oldest first."""
        return list(self._client.call("GET", self._client.path(self.id, "events"))["events"])

    def metrics(self, *, index: int | None = None) -> dict[str, list[Point]]:
        """What it has reported by now: for each name its points, oldest first. Of an array those
        of all elements, or of the one with that `index`. What was done again after a resume counts
        once; of very long series not every point is kept."""
        from gpulayer.sdk.reported import metrics

        return metrics(self._client.call, self.id, index)

    def why(self) -> dict[str, Any]:
        """The scheduler's decision: each worker, each check, needed and had."""
        return dict(self._client.call("GET", self._client.path(self.id, "decision")))

    def provenance(self) -> dict[str, Any]:
        """What it was and what it ran in, exactly: code, inputs, image, packages, devices, by
        digest where there is one; names of variables and secrets, and no value of any."""
        from gpulayer.sdk.provenance import provenance

        return provenance(self._client._wire(), self.refresh())

    def diff(self, after: Job) -> dict[str, Any]:
        """What differs between this job and another: {differences: [{part, name, before, after,
        lines}], unknown: [what could not be compared]}."""
        from gpulayer.sdk.comparing import compared

        return compared(self._client._wire(), self.refresh(), after.refresh()).to_json()

    def cancel(self, *, now: bool = False) -> None:
        """Ask for its end: TERM, then KILL after ten seconds; `now`: KILL. Twice is once."""
        body = {"mode": "kill" if now else "term"}
        self._client.call("POST", self._client.path(self.id, "cancel"), body)

    def retry(self, *, exact: bool = False) -> Job:
        """The same job again, as a new one: with the program's environment as it is now, in the
        folder of this one. Refused before it has ended. `exact`: with the code, inputs, image,
        Python and versions of packages that it had; raises `not-exact` where one has gone."""
        return self._client.retry(self, exact=exact)

    def outputs(self) -> list[dict[str, Any]]:
        """Files that it left in its output folder: [{path, digest, size}]."""
        return list(self.refresh().get("outputs") or ())

    def fetch(self, path: str, target: str | os.PathLike[str]) -> None:
        """One of these files as `target`, which must not be there. Of a job of several nodes also
        by its path on any one of them. Raises `artifact-not-found`, `already-there`."""
        from gpulayer.sdk.fetching import fetch_output

        fetch_output(self._client._wire(), self.id, self.outputs(), path, target)

    def refresh(self) -> dict[str, Any]:
        """Everything the plane knows about it, as JSON. An ended job is asked for once."""
        if self._found.get("state") not in TERMINAL_JOB_STATES or "spec" not in self._found:
            self._found = dict(self._client.call("GET", self._client.path(self.id)))
        return self._found

    def settle(self, found: Mapping[str, Any], future: Future[Any]) -> None:
        """Resolve `future` from the ended job. Called by the client that watches."""
        self._found = dict(found)
        try:
            if found["state"] == "succeeded":
                future.set_result(result_of(found, self._client._wire))
            else:
                future.set_exception(failure_of(found, self._last_lines(found)))
        except Exception as error:
            if not future.done():
                future.set_exception(error)

    def _last_lines(self, found: Mapping[str, Any], index: int | None = None) -> list[str]:
        """Less the traceback that a function's runner wrote: the exception has it already."""
        reported = (found.get("result") or {}).get("error") or {}
        traceback = str(reported.get("traceback") or "").splitlines()
        try:
            lines = list(deque(self.logs(index=index), LAST_LINES + len(traceback)))
        except GPULayerError:
            return []
        if traceback and lines[-len(traceback) :] == traceback:
            del lines[-len(traceback) :]
        return lines[-LAST_LINES:]

    def __repr__(self) -> str:
        return f"<Job {self.id} {self._found.get('state', '?')}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<code>{escape(self.id)}</code> <b>{escape(str(self._found.get('state')))}</b>"
