"""The plane is away longer than a lease, or cannot be reached, or sends a worker away, while jobs
run.

Leases are short here, so that the whole takes seconds; the simulator plays the same with real ones.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpulayer.api.worker_channel import HttpChannel
from tests.support.bad_proxy import BadProxy
from tests.support.served_plane import FINISH_SECONDS, ServedPlane
from tests.support.site import Site
from tests.support.supervisor import SupervisorHome

LEASE_SECONDS = 3.0
AGAIN = {"retry": {"max_attempts": 2, "retry_on": ["worker_lost"]}}


_FINAL = ("state", "reason", "exit_code", "attempt", "finished_at")


class Waiting:
    """A job that notes down each process of it, and waits at a gate."""

    def __init__(self, site: Site, folder: Path, name: str, **spec: object) -> None:
        self._site = site
        self._pids = folder / f"{name}.pids"
        self._gate = folder / f"{name}.gate"
        os.mkfifo(self._gate)
        text = f"echo $$ >> {self._pids}; echo begin; read go < {self._gate}; echo over"
        little = {"cpu_cores": 0.1}  # two of them run at once on one core too
        self.id = site.plane.submit("sh", "-c", text, name=name, resources=little, **spec)

    def begun(self, times: int = 1) -> int:
        """Waits until the plane has read that it began so many times; the newest process."""

        def said() -> bool:
            begins = self._site.plane.plane.log(self.id).data.count(b"begin")
            return begins >= times and "started" in self._site.story(self.id)

        self._site.until(said, f"job:{self.id}")
        return int(self._pids.read_text().split()[-1])

    def told(self, kind: str) -> None:
        self._site.until(lambda: kind in self._site.story(self.id), f"job:{self.id}")

    def open_gate(self) -> None:
        self._gate.write_text("go\n")

    def ended(self) -> tuple[str, int, bytes]:
        job = self._site.ended(self.id)
        return job["state"], job["attempt"], self._site.printed(job)


@contextmanager
def served(folder: Path, **settings: float) -> Iterator[ServedPlane]:
    folder.mkdir()
    brisk = {"report_seconds": 0.3, "redeliver_seconds": 0.3, "tick_seconds": 0.1}
    plane = ServedPlane(folder, lease_seconds=LEASE_SECONDS, **brisk | settings)
    plane.serve()
    try:
        yield plane
    finally:
        plane.close()


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ServedPlane]:
    with served(tmp_path / "plane") as plane:
        yield plane


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[ServedPlane]:
    """One whose grace is short."""
    with served(tmp_path / "forgetful", disconnect_grace_seconds=1.0) as plane:
        yield plane


@pytest.fixture
def proxy(plane: ServedPlane) -> Iterator[BadProxy]:
    with BadProxy(plane.socket) as proxy:
        yield proxy


@pytest.fixture
def site(plane: ServedPlane, proxy: BadProxy, tmp_path: Path) -> Iterator[Site]:
    with SupervisorHome(tmp_path) as home:
        site = Site(plane, home, tmp_path)
        site.begin(HttpChannel.over(proxy.path))
        try:
            yield site
        finally:
            site.close()


def dies(pid: int) -> None:
    """Waits for the end of a process."""
    try:
        pin = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([pin], [], [], FINISH_SECONDS)[0], "it lives on"
    finally:
        os.close(pin)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_jobs_survive_a_plane_that_is_away_for_longer_than_a_lease(
    plane: ServedPlane, site: Site, tmp_path: Path
) -> None:
    once, again = Waiting(site, tmp_path, "once"), Waiting(site, tmp_path, "again", **AGAIN)
    kept, ended = once.begun(), again.begun()
    plane.hang_up()
    dies(ended)
    threading.Event().wait(LEASE_SECONDS)  # the rest of the outage
    assert lives(kept)
    plane.begin()
    plane.serve()
    again.begun(times=2)
    assert lives(kept)
    once.open_gate()
    again.open_gate()
    assert once.ended() == ("succeeded", 1, b"begin\nover\n")
    assert again.ended() == ("succeeded", 2, b"begin\nbegin\nover\n")
    assert "disconnected" not in site.story(once.id), "after a start nothing expires for one lease"


def test_an_end_of_the_outage_is_told_when_the_plane_is_back(
    plane: ServedPlane, site: Site, tmp_path: Path
) -> None:
    once = Waiting(site, tmp_path, "once")
    pid = once.begun()
    plane.hang_up()
    once.open_gate()
    dies(pid)
    plane.begin()
    plane.serve()
    assert once.ended() == ("succeeded", 1, b"begin\nover\n")


def test_over_a_cut_line_a_job_without_another_attempt_runs_on_and_others_end_first(
    plane: ServedPlane, site: Site, proxy: BadProxy, tmp_path: Path
) -> None:
    once, again = Waiting(site, tmp_path, "once"), Waiting(site, tmp_path, "again", **AGAIN)
    kept, ended = once.begun(), again.begun()
    proxy.cut(True)
    again.told("retrying")
    assert not lives(ended), "it was ended before it was given out again"
    once.told("disconnected")
    told = plane.plane.job(once.id)
    assert (told["state"], lives(kept)) == ("running", True)
    assert told["disconnected_since"] is not None
    proxy.cut(False)
    once.told("reconnected")
    is_heard = lambda: plane.plane.job(once.id)["disconnected_since"] is None  # noqa: E731
    site.until(is_heard, f"job:{once.id}")
    again.begun(times=2)
    once.open_gate()
    again.open_gate()
    assert once.ended() == ("succeeded", 1, b"begin\nover\n")
    assert again.ended()[:2] == ("succeeded", 2)


@pytest.mark.parametrize("has_ended", [True, False], ids=["ended", "runs"])
def test_what_comes_back_after_the_grace_is_told_and_changes_nothing(
    forgetful: ServedPlane, tmp_path: Path, has_ended: bool
) -> None:
    with BadProxy(forgetful.socket) as proxy, SupervisorHome(tmp_path) as home:
        site = Site(forgetful, home, tmp_path)
        site.begin(HttpChannel.over(proxy.path))
        try:
            job = Waiting(site, tmp_path, "once")
            pid = job.begun()
            proxy.cut(True)
            if has_ended:
                job.open_gate()
                dies(pid)
            lost = site.ended(job.id)
            assert (lost["state"], lost["reason"]) == ("failed", "worker_lost")
            story = site.story(job.id)
            proxy.cut(False)
            job.told("late_report")
            dies(pid)
            assert site.ended(later := site.submit(1))["state"] == "succeeded"
            assert later != job.id
        finally:
            site.close()
        told = forgetful.plane.job(job.id)
        assert {key: told[key] for key in _FINAL} == {key: lost[key] for key in _FINAL}
        assert site.story(job.id) == [*story, "late_report"]


def test_without_an_agent_the_supervisor_ends_what_may_be_given_out_again(
    plane: ServedPlane, site: Site, tmp_path: Path
) -> None:
    once, again = Waiting(site, tmp_path, "once"), Waiting(site, tmp_path, "again", **AGAIN)
    kept, ended = once.begun(), again.begun()
    site.close()
    again.told("retrying")
    assert not lives(ended), "it was ended before it was given out again"
    assert lives(kept)
    site.begin(HttpChannel.over(plane.socket))
    again.begun(times=2)
    once.open_gate()
    again.open_gate()
    assert once.ended() == ("succeeded", 1, b"begin\nover\n")
    assert again.ended()[:2] == ("succeeded", 2)


def test_a_worker_that_drains_finishes_what_it_has_and_gets_nothing_new(
    plane: ServedPlane, site: Site, tmp_path: Path
) -> None:
    running = Waiting(site, tmp_path, "running")
    running.begun()
    plane.plane.drain("local").result(FINISH_SECONDS)
    later = site.submit(1)
    running.open_gate()
    assert running.ended()[0] == "succeeded"
    (worker,) = plane.plane.workers()
    assert (worker["state"], worker["tasks"]) == ("draining", [])
    assert plane.plane.job(later)["state"] == "queued"
    assert "drains" in plane.plane.job(later)["decision_summary"]
    plane.plane.drain("local", draining=False).result(FINISH_SECONDS)
    assert site.ended(later)["state"] == "succeeded"
