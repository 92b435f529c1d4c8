"""What an attached client asks the plane while its eyes are on the supervisor.

Both questions wait: one for a job that may end without ever beginning, one for a cancellation to
be recorded. Each has a thread and a connection of its own, made only when needed, and its answer
wakes the client's loop through a pipe.
"""

from __future__ import annotations

import os

from gpulayer.sdk.places import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from gpulayer.runtime.segments import Record

PARK_SECONDS = 25.0


class PlaneSide:
    """Belongs to the loop's thread."""

    def __init__(self, places: Places) -> None:
        self.job_id = ""
        self.is_asked = False
        self.is_alone = False
        """The supervisor is gone, so that only the plane can say how the job ends."""
        self._places = places
        self.job: dict[str, Any] | None = None
        """The job as it ended, once heard."""
        self._found: dict[str, Any] | None = None
        self._read = self._write = -1

    def fileno(self) -> int:
        """Readable when there is an answer; -1 while nothing was asked."""
        return self._read

    def ask(self, *, alone: bool = False) -> None:
        """Have the plane say how the job ends. Twice-safe."""
        self.is_alone = self.is_alone or alone
        if not self.is_asked:
            self.is_asked = True
            self._read, self._write = os.pipe2(os.O_CLOEXEC)
            self._in_background(self._wait)

    def hear(self) -> None:
        """Take the answer, which is there: `job` has it."""
        os.read(self._read, 1)
        os.close(self._read)
        self._read = -1
        self.job = self._found

    def log(self) -> Iterator[Record]:
        """What is in the job's log; nothing where no plane answers."""
        from gpulayer.errors import GPULayerError
        from gpulayer.sdk.local import ensure_plane
        from gpulayer.sdk.log_lines import records

        try:
            yield from records(ensure_plane(self._places), self.job_id, follow=True)
        except GPULayerError:
            return

    def cancel(self, mode: str, grace_seconds: float | None = None) -> None:
        """Ask for the job's end; returns at once."""
        body: dict[str, Any] = {"mode": mode}
        if grace_seconds is not None:
            body["grace_seconds"] = grace_seconds
        self._in_background(lambda: self._call("POST", "/cancel", body))

    def close(self) -> None:
        """Twice-safe. A thread that still waits ends with the process."""
        if self._read >= 0:
            os.close(self._read)
            self._read = -1

    def _wait(self) -> None:
        while self._found is None:
            path = f"?wait={PARK_SECONDS:.0f}&until=finished"
            job = self._call("GET", path, park=PARK_SECONDS)
            if job is None or job.get("finished_at") is not None:
                self._found = job or {"state": "lost", "reason": "", "message": "no plane answers"}
        try:
            os.write(self._write, b"!")
        except OSError:
            pass  # the client has left

    def _call(
        self, method: str, rest: str, body: dict[str, Any] | None = None, park: float = 0.0
    ) -> dict[str, Any] | None:
        from gpulayer.errors import GPULayerError
        from gpulayer.sdk.local import ensure_plane

        try:
            wire = ensure_plane(self._places)
            reply = wire.call(method, f"/v1/jobs/{self.job_id}{rest}", body, park=park)
        except GPULayerError:
            return None
        return dict(reply)

    def _in_background(self, call: Any) -> None:
        import threading

        threading.Thread(target=call, daemon=True).start()
