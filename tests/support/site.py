"""A plane, and one real worker with a real supervisor that reaches it by some channel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpulayer.clock import SystemClock, SystemIds
from gpulayer.runtime import segments
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.process import Outside, Worker
from tests.support.served_plane import FINISH_SECONDS, ServedPlane
from tests.support.supervisor import SupervisorHome


class Site:
    """`folder` is where the jobs leave their marks. `errors`: faults that the worker met."""

    def __init__(self, plane: ServedPlane, home: SupervisorHome, folder: Path) -> None:
        self.plane = plane
        self.ran = folder / "ran"
        self.errors: list[BaseException] = []
        self._home = home
        self._worker: Worker | None = None

    def begin(self, channel: WorkerChannel) -> None:
        outside = Outside(
            lock=str(self._home.home / "agent.lock"),
            tasks=str(self._home.home / "tasks"),
            supervisor_socket=self._home.socket,
            start_supervisor=lambda: None,
            start_plane=lambda: None,
            on_error=self.errors.append,
        )
        self._worker = Worker(channel, outside, SystemClock(), SystemIds())
        assert self._worker.start()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.stop()

    def submit(self, lines: int, **spec: Any) -> str:
        """A job that notes down that it ran, and prints so many lines."""
        text = f"echo $GPULAYER_JOB_ID >> {self.ran}; seq 1 {lines}"
        return self.plane.submit("sh", "-c", text, **spec)

    def until(self, holds: Callable[[], Any], topic: str) -> None:
        """Waits for the plane's word."""
        while True:
            with self.plane.plane.wakeups.subscribe(topic) as ticket:
                if holds():
                    return
                assert ticket.wait(FINISH_SECONDS), "not in time"

    def ended(self, job_id: str) -> dict[str, Any]:
        self.until(lambda: self.plane.plane.job(job_id)["finished_at"], f"job:{job_id}")
        return self.plane.plane.job(job_id)

    def printed(self, job: dict[str, Any]) -> bytes:
        """The whole output of an ended job, as the plane has it."""
        assert job["log_complete"]
        logs = self.plane.plane.log(job["id"], limit=1 << 30)
        assert logs.eof
        return b"".join(r.data for r in segments.decode(logs.data))

    def story(self, job_id: str) -> list[str]:
        """Kinds of its events."""
        return [event["kind"] for event in self.plane.plane.events(job_id)]

    def hold(self, jobs: dict[str, int]) -> None:
        """The laws."""
        for job_id, lines in jobs.items():
            job = self.ended(job_id)
            assert (job["state"], job["attempt"]) == ("succeeded", 1), job
            assert self.printed(job) == b"".join(b"%d\n" % n for n in range(1, lines + 1))
            story = self.story(job_id)
            assert [story.count(kind) for kind in ("placed", "started", "finished")] == [1, 1, 1]
        ran = self.ran.read_text().split()
        assert sorted(ran) == sorted(jobs), "each ran once"
        assert not self.errors
