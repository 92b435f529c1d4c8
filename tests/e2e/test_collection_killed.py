"""kill -9 at each step of a collection: nothing is listed that is not there without saying so, what
is needed stays, and the next collection ends what this one began."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import NotFoundError
from gpulayer.runtime import segments
from tests.support.env import Env
from tests.support.local_home import LocalHome

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
LIMITS = {"history_jobs": 6, "logs_bytes": 12}
STEPS = ["gc-jobs", "gc-log", "gc-said", "gc-artifact"]
COMMITS = [(point, nth) for point in ("begin", "commit", "committed") for nth in (1, 2, 3)]

# Collects in the folder of a plane that has gone. Dies at the nth passing of a point of its store,
# or where GPULAYER_CRASH_AT says.
CHILD = f"""
import os, signal, sys
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.settings import Settings
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.storage.logs import LogFolder
from gpulayer.storage.store import Store
from tests.support.clocks import FakeClock, SeededIds

database, folder, now, point, nth = sys.argv[1:]
passed = 0

def fault(here):
    global passed
    passed += here == point
    if here == point and passed == int(nth):
        os.kill(os.getpid(), signal.SIGKILL)

store = Store(database, inline=True)
plane = ControlPlane(
    store, FakeClock(float(now)), SeededIds(1), Wakeups(), LogFolder(folder + "/logs"),
    LocalArtifacts(folder + "/artifacts"), Settings(**{LIMITS!r}),
)
store._commits._fault = fault  # not while it is opened
plane.gc()
"""


class Site:
    """A plane's folder with a history of which a part is past each limit."""

    def __init__(self, database: str) -> None:
        self.database = database
        self.env = env = Env(address=database, **LIMITS)
        worker = env.worker()
        for number in range(9):
            env.clock.advance(1)
            file = {"path": "out", "digest": self.put(b"output %d" % number), "size": 8}
            env.run(worker, env.submit(), log=b"12345", outputs=(file,))
        self.source = self.put(b"source")
        work = {"kind": "command", "command": ["true"], "source": ADDRESS + self.source}
        env.submit(name="waits", workload=work)
        self.put(b"nobody's")
        for kept in env.artifacts.stored():
            os.utime(env.artifacts.path(kept.digest), (env.clock.now() - 9_999,) * 2)
        env.store.close()

    def put(self, data: bytes) -> str:
        return self.env.artifacts.put_stream([data])[0]

    def collect(self, point: str = "", nth: int = 0, **environ: str) -> int:
        """By a process of its own; its exit code."""
        words = [self.database, self.env.folder, str(self.env.clock.now()), point, str(nth)]
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *words],
            cwd=ROOT,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode

    @contextmanager
    def plane(self) -> Iterator[Env]:
        """The next one in that folder."""
        env = Env(address=self.database, beside=self.env, **LIMITS)
        try:
            yield env
        finally:
            env.store.close()

    def look(self) -> dict[str, Any]:
        """All that there is."""
        with self.plane() as env:
            jobs = [job["id"] for job in env.plane.jobs(ended=True)]
            return {
                "stories": {job: env.story(job) for job in jobs},
                "logs": env.logs.sizes(),
                "artifacts": [kept.digest for kept in env.artifacts.stored()],
            }

    def check(self) -> None:
        with self.plane() as env:
            env.check()
            for job in env.plane.jobs(ended=True):
                whole = env.plane.job(job["id"])
                for output in whole["outputs"]:
                    assert env.artifacts.has(output["digest"]), whole
                said = env.plane.log(job["id"]).data
                if whole["finished_at"] and said != b"12345":
                    (note,) = segments.decode(said)
                    assert b"was removed" in note.data
            assert env.artifacts.has(self.source)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(str(tmp_path / "db.sqlite"))
    yield site
    site.env.close()


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a collection that nobody kills leaves."""
    site = Site(str(tmp_path_factory.mktemp("unharmed") / "db.sqlite"))
    assert site.collect() == 0
    site.check()
    left = site.look()
    site.env.close()
    assert (len(left["stories"]), len(left["logs"]), len(left["artifacts"])) == (7, 2, 7)
    return left


@pytest.mark.parametrize("step", STEPS)
def test_killed_behind_a_step(
    site: Site, unharmed: dict[str, Any], tmp_path: Path, step: str
) -> None:
    token = tmp_path / "armed"
    token.touch()
    assert site.collect(GPULAYER_CRASH_AT=f"{step}={token}") == -signal.SIGKILL
    site.check()
    assert site.look() != unharmed
    assert site.collect() == 0
    site.check()
    assert site.look() == unharmed


@pytest.mark.parametrize(("point", "nth"), COMMITS)
def test_killed_within_a_transaction(
    site: Site, unharmed: dict[str, Any], point: str, nth: int
) -> None:
    assert site.collect(point, nth) == -signal.SIGKILL
    site.check()
    assert site.collect() == 0
    site.check()
    assert site.look() == unharmed


def test_what_a_job_names_that_was_just_accepted_stays(tmp_path: Path) -> None:
    """One collection after another, while old artifacts get a job that names them."""
    over = threading.Event()
    with LocalHome() as home:
        home.run("true", check=0)

        def collect() -> None:
            wire = home.wire()
            while not over.is_set():
                wire.call("POST", "/v1/gc", {})

        collector = threading.Thread(target=collect)
        collector.start()
        try:
            outcomes = [_submitted(home, b"input %d" % number) for number in range(40)]
        finally:
            over.set()
            collector.join()
    assert outcomes.count("accepted") > 0


def _submitted(home: LocalHome, data: bytes) -> str:
    """Put it, let it grow old, and submit a job that names it, which may come too late."""
    folder = home.folder / "home" / "artifacts"
    digest = put(home, data)
    path = folder / digest[:2] / digest
    try:
        os.utime(path, (1000, 1000))
        spec = {
            "workload": {"kind": "command", "command": ["true"]},
            "inputs": [{"artifact": ADDRESS + digest, "path": "x"}],
            "placement": {"worker_ids": ["nobody"]},
        }
        home.wire().call("POST", "/v1/jobs", {"spec": spec})
    except (FileNotFoundError, NotFoundError):
        return "too late"
    home.wire().call("POST", "/v1/gc", {})
    assert path.read_bytes() == data
    return "accepted"


def put(home: LocalHome, data: bytes) -> str:
    import hashlib

    digest = hashlib.sha256(data).hexdigest()
    home.wire().request("PUT", f"/v1/artifacts/sha256/{digest}", data)
    return digest
