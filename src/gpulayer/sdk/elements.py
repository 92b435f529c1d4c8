"""What came of the elements of an array, read a page at a time: memory holds one page, whatever the
array's size, and the plane is asked once for each page that is full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpulayer.clock import SystemClock
from gpulayer.errors import GPULayerError, JobCancelledError
from gpulayer.sdk.failures import failure_of
from gpulayer.sdk.gathering import gather_seconds
from gpulayer.sdk.values import json_of, result_of

if TYPE_CHECKING:
    from gpulayer.sdk.job import Job
    from gpulayer.sdk.progress import Progress

PARK_SECONDS = 25.0


class Element:
    """One element of an array that has ended. Safe to use from any thread."""

    def __init__(self, job: Job, row: Mapping[str, Any]) -> None:
        self._job = job
        self._row = row
        self.index: int = row["index"]
        """Its place among the items of a map."""
        self.state = str(row["state"])
        """succeeded, failed, timed_out or cancelled."""
        self.attempt: int = row.get("attempt", 0)
        """How often it was given out; 0: never."""

    @property
    def exit_code(self) -> int | None:
        """By the shell's convention; None where it has none."""
        code = (self._row.get("result") or {}).get("exit_code")
        return None if code is None else int(code)

    def result(self) -> Any:
        """What the function returned, or 0 for a command. Raises what `exception` gives, with the
        last lines of its log where it did not raise itself."""
        if self.state == "succeeded":
            return result_of(self._found(), self._job._client._wire)
        raise self._failure(with_lines=True)

    def exception(self) -> GPULayerError | None:
        """How it failed, the remote exception as its `__cause__`; None where it succeeded. Asks for
        nothing more than was told already."""
        return None if self.state == "succeeded" else self._failure(with_lines=False)

    def logs(self) -> Iterator[str]:
        """What it wrote, as `Job.logs` gives it."""
        return self._job.logs(index=self.index)

    def to_json(self) -> dict[str, Any]:
        """index, state, attempt, exit_code, and value or error. The value is in the form in which
        it travels, as `gpulayer result` prints it, and fetched where it is large."""
        told: dict[str, Any] = {"index": self.index, "state": self.state, "attempt": self.attempt}
        told |= self._row.get("result") or {}
        if "value" in told:
            told["value"] = json_of(self._found(), self._job._client._wire)
        return told

    def __repr__(self) -> str:
        return f"<Element {self.index} of {self._job.id} {self.state}>"

    def _failure(self, *, with_lines: bool) -> GPULayerError:
        if not self.attempt:
            return self._never_begun()
        found = self._found()
        error = found["result"].get("error") or {}
        is_told = not with_lines or "traceback" in error
        return failure_of(found, () if is_told else self._job._last_lines(found, self.index))

    def _never_begun(self) -> GPULayerError:
        """Its job ended before its turn; why, the job knows."""
        job = self._job.refresh()
        if job["reason"] == "unschedulable":
            return failure_of(job)
        return JobCancelledError(
            "cancelled",
            f"element {self.index} of job {job['id']} was cancelled before it began",
            why=job["message"],
            hint=f"gpulayer retry {job['id']}",
            job_id=job["id"],
            details={"state": "cancelled", "exit_code": None, "index": self.index},
        )

    def _found(self) -> dict[str, Any]:
        """It, as a job of its own would be told."""
        result = self._row["result"]
        message = (result.get("error") or {}).get("message") or ""
        return {
            "id": self._job.id,
            "index": self.index,
            "state": self.state,
            "reason": "" if message else "exited",
            "message": message,
            "exit_code": self.exit_code,
            "attempt": self.attempt,
            "max_attempts": self.attempt,
            "spec": self._job._found.get("spec") or self._job.refresh()["spec"],
            "result": result,
            "outputs": [
                {"path": path, "digest": digest}
                for path, digest in self._row.get("files", {}).items()
            ],
        }


def ended(
    job: Job,
    *,
    by_end: bool = False,
    end: float | None = None,
    progress: Progress | None = None,
) -> Iterator[Element]:
    """Each once it has ended: by index, or as they end. Those that were never given out are told
    too, as cancelled. What was read before a plane went is not asked for again. Raises TimeoutError
    where one has not ended at `end` of the monotonic clock."""
    yield from _pages(job, progress, {"order": "end"} if by_end else {"ended": 1}, end)
    if by_end:
        left = _pages(job, None, {"state": "cancelled"})
        yield from (element for element in left if not element.attempt)


def in_state(job: Job, *states: str) -> Iterator[Element]:
    """Those that are in one of the states now, by index within each."""
    for state in states:
        yield from _pages(job, None, {"state": state})


def _pages(
    job: Job, progress: Progress | None, query: Mapping[str, Any], end: float | None = None
) -> Iterator[Element]:
    client, left = job._client, 0
    place: dict[str, int] = {}
    waits = "state" not in query
    most = progress.pause_seconds if progress is not None else PARK_SECONDS
    while True:
        park = most if end is None else min(most, max(0.0, end - SystemClock().monotonic()))
        asked: dict[str, Any] = {**query, **place}
        if waits:
            asked |= {"wait": park, "gather": gather_seconds(left)}
        if progress is not None:
            progress.show()
        page = client.call("GET", client.path(job.id, "elements", **asked), park=park)
        left = page["array"]["waiting"] + page["array"]["running"]
        if progress is not None:
            progress.array = page["array"]
        for row in page["elements"]:
            yield Element(job, row)
        if page["next"] is None:
            return
        if end is not None and not page["elements"] and SystemClock().monotonic() >= end:
            raise TimeoutError(f"{left} elements of {job.id} have not ended")
        place = {"after": page["next"]} if page["next"] >= 0 else {}
