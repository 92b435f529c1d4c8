"""What a worker and its plane hold to over any channel, however bad the network between them.

A real worker with a real supervisor runs real commands; the proxy strikes at its requests.
Whatever it does: no assignment runs twice, no log byte is lost or doubled, each end is recorded
once, and nothing waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gpulayer.api.direct_channel import DirectChannel
from gpulayer.api.worker_channel import HttpChannel
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.runtime import segments
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.process import Outside, Worker
from tests.support.bad_proxy import BadProxy, Fate
from tests.support.served_plane import FINISH_SECONDS, ServedPlane
from tests.support.supervisor import SupervisorHome

JOBS = 10
BROKEN = tuple(fate for fate in Fate if fate is not Fate.PASS)
BRISK = {"report_seconds": 0.2, "redeliver_seconds": 0.2, "tick_seconds": 0.2}


class Site:
    """A plane, and a worker that reaches it by some channel."""

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
        """What the plane has of the job's output, the newest task's log read whole."""
        assert job["log_complete"]
        logs = self.plane.plane.log(job["id"], 0, 1 << 30)
        assert logs.eof
        return b"".join(r.data for r in segments.decode(logs.data))

    def hold(self, jobs: dict[str, int]) -> None:
        """The laws."""
        for job_id, lines in jobs.items():
            job = self.ended(job_id)
            assert (job["state"], job["attempt"]) == ("succeeded", 1), job
            assert self.printed(job) == b"".join(b"%d\n" % n for n in range(1, lines + 1))
            story = [event["kind"] for event in self.plane.plane.events(job_id)]
            assert [story.count(kind) for kind in ("placed", "started", "finished")] == [1, 1, 1]
        ran = self.ran.read_text().split()
        assert sorted(ran) == sorted(jobs), "each ran once"
        assert not self.errors


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "plane").mkdir()
    plane = ServedPlane(tmp_path / "plane", **BRISK)
    with SupervisorHome(tmp_path) as home:
        site = Site(plane, home, tmp_path)
        try:
            yield site
        finally:
            site.close()
            plane.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _jobs(site: Site, count: int = JOBS) -> dict[str, int]:
    """Short ones, whose log goes with their end, and long ones, whose log is shipped."""
    return {site.submit(lines): lines for lines in (10, 20_000, 1, 60_000, 200)[:count] * 2}


def test_in_process(site: Site) -> None:
    site.begin(DirectChannel(site.plane.plane, site.plane.artifacts))
    site.hold(_jobs(site))


@pytest.mark.parametrize("fates", [(), *((fate,) for fate in BROKEN), BROKEN], ids="+".join)
def test_over_a_bad_network(site: Site, stack: ExitStack, fates: tuple[Fate, ...]) -> None:
    proxy = stack.enter_context(BadProxy(site.plane.serve_tcp(), fates))
    site.begin(HttpChannel.over(proxy.path))
    site.hold(_jobs(site))
    assert not fates or any(proxy.met[fate] for fate in fates), "the proxy did nothing"


@pytest.mark.parametrize("seed", range(3))
def test_over_a_network_in_which_little_arrives(site: Site, stack: ExitStack, seed: int) -> None:
    proxy = BadProxy(site.plane.serve_tcp(), BROKEN, seed, rate=0.7)
    site.begin(HttpChannel.over(stack.enter_context(proxy).path))
    site.hold(_jobs(site, 3))
