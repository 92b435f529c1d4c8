"""What doctor says of an installation, with and without a plane."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.storage.wal_bug import has_wal_bug
from tests.support.local_home import RUN, SECONDS, LocalHome
from tests.support.person import Person

pytestmark = pytest.mark.e2e


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def doctor(home: LocalHome, **environ: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "gpulayer", "doctor", "--json"],
        env={**home.environ, **environ},
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
    ],
)
def test_the_wal_bug_is_known_by_version(version: tuple[int, ...], affected: bool) -> None:
    assert has_wal_bug(version) is affected


def test_doctor_starts_nothing(home: LocalHome) -> None:
    found = doctor(home)
    assert found["processes"] == []
    assert found["plane"].startswith("not running")
    assert not os.path.exists(home.places.home)


def test_doctor_lists_our_processes_and_the_jobs(home: LocalHome) -> None:
    home.run("true", check=0)
    running = home.popen("sleep", "100")
    (job,) = home.until_running(1)
    found = doctor(home)
    assert [p["kind"] for p in found["processes"]] == ["agent", "plane", "supervisor", "job"]
    assert found["processes"][-1]["note"] == job["id"]
    assert found["plane"].startswith("local, version")
    assert "each task" in found["containment"]
    os.kill(found["processes"][-1]["pid"], signal.SIGKILL)
    assert running.wait(SECONDS) == -signal.SIGKILL


def test_doctor_tells_a_keeper_from_the_supervisor_that_forked_it(home: LocalHome) -> None:
    with Person([*RUN, "sleep", "100"], home.environ, home.work):
        home.until_running(1)
        kinds = sorted(process["kind"] for process in doctor(home)["processes"])
        assert kinds == ["agent", "job", "keeper", "plane", "supervisor"]


def test_doctor_says_what_a_killed_plane_left(home: LocalHome) -> None:
    home.run("true", check=0)
    os.kill(home.pid("agent"), signal.SIGSTOP)  # else it starts another
    home.kill("plane")
    found = doctor(home)
    assert [p["kind"] for p in found["processes"]] == ["agent", "supervisor"]
    assert any("have no plane" in note for note in found["notes"])
    assert any("is stopped; wake it: kill -CONT" in note for note in found["notes"])
