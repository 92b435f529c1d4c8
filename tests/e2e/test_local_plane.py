"""The local plane: starts by itself, once; serves; ends, and leaves nothing."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.faults import delete
from tests.support.local_home import RUN, SECONDS, LocalHome, watched

pytestmark = pytest.mark.e2e

ONE_OF_EACH = ["agent", "plane", "supervisor"]


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def test_the_first_command_starts_a_plane_and_runs(home: LocalHome) -> None:
    done = home.run("sh", "-c", "echo hello; echo oh >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == (b"hello\n", b"oh\n", 7)
    home.until(lambda: home.processes() == ONE_OF_EACH)


def test_the_next_command_uses_the_same_plane(home: LocalHome) -> None:
    home.run("true", check=0)
    plane = home.pid("plane")
    home.run("true", check=0)
    assert home.pid("plane") == plane
    assert len(home.jobs()) == 2


def test_twenty_clients_at_once_on_nothing_make_one_plane(home: LocalHome) -> None:
    clients = [
        home.popen("sh", "-c", f"echo {n}; exit {n}", stdout=subprocess.PIPE) for n in range(20)
    ]
    for n, client in enumerate(clients):
        out, _ = client.communicate(timeout=SECONDS)
        assert (out, client.returncode) == (b"%d\n" % n, n)
    home.until(lambda: home.processes() == ONE_OF_EACH)  # who came too late leaves
    assert len(home.jobs()) == 20


def test_stopping_leaves_no_process_and_keeps_the_history(home: LocalHome) -> None:
    home.run("echo", "kept", check=0)
    detached = [*RUN[:-1], "--detach", "--", "true"]
    subprocess.run(detached, env=home.environ, cwd=home.work, check=True, timeout=SECONDS)
    home.until(lambda: all(job["finished_at"] for job in home.jobs()))
    assert os.listdir(home.places.envelopes)
    assert home.stop()
    assert home.strays() == []
    assert os.listdir(home.places.envelopes) == []
    assert not os.path.exists(home.places.plane_socket)
    assert not os.path.exists(home.places.database + "-wal")
    assert not home.stop()
    home.run("true", check=0)
    assert len(home.jobs()) == 3


def test_the_runtime_folder_is_private(home: LocalHome) -> None:
    home.run("true", check=0)
    places = home.places
    assert os.stat(places.runtime).st_mode & 0o777 == 0o700
    for name in ("db.sqlite", "plane.log"):
        assert os.stat(f"{places.home}/{name}").st_mode & 0o077 == 0


def test_an_idle_plane_leaves_with_all_that_is_its_own() -> None:
    with LocalHome(GPULAYER_IDLE_SECONDS="0.5") as home:
        os.mkfifo(home.work / "go")
        client = home.popen("sh", "-c", "read x < go")
        home.until_running(1)
        with watched(home.pid("plane")) as plane, watched(home.pid("agent")) as agent:
            (home.work / "go").write_text("on\n")
            assert client.wait(SECONDS) == 0
            assert plane(SECONDS)
            assert agent(SECONDS)
        home.run("echo", "again", check=0)


def test_an_idle_plane_removes_what_no_job_needs_before_it_leaves() -> None:
    with LocalHome(GPULAYER_IDLE_SECONDS="0.5") as home:
        os.mkfifo(home.work / "go")
        client = home.popen("sh", "-c", "read x < go")
        home.until_running(1)
        (Path(home.places.logs) / "nobody-00000000").mkdir()
        with watched(home.pid("plane")) as plane:
            (home.work / "go").write_text("on\n")
            assert client.wait(SECONDS) == 0
            assert plane(SECONDS)
        assert "nobody-00000000" not in os.listdir(home.places.logs)


def test_a_plane_with_work_is_not_idle() -> None:
    with LocalHome(GPULAYER_IDLE_SECONDS="0.2") as home:
        os.mkfifo(home.work / "go")
        client = home.popen("sh", "-c", "touch up; sleep 2.5; touch slept; read x < go")
        home.until((home.work / "up").exists)
        with watched(home.pid("plane")) as gone:
            home.until((home.work / "slept").exists)  # meanwhile nobody asks it anything
            assert not gone(0)
            (home.work / "go").write_text("on\n")
            assert client.wait(SECONDS) == 0


def test_all_leave_when_their_folder_is_deleted(home: LocalHome) -> None:
    running = home.popen("sleep", "100")
    home.until_running(1)
    with ExitStack() as watching:
        all_gone = [watching.enter_context(watched(home.pid(kind))) for kind in ONE_OF_EACH]
        delete(Path(home.places.home))
        assert all(gone(SECONDS) for gone in all_gone)
    assert running.wait(SECONDS) != 0
    assert not os.path.exists(home.places.home)
    home.until(lambda: home.strays() == [])


def test_a_job_never_starts_a_plane(home: LocalHome) -> None:
    other = home.folder / "other"
    environ = {"GPULAYER_HOME": str(other), "GPULAYER_JOB_ID": "outer-1"}
    done = subprocess.run(
        [*RUN, "true"], env={**home.environ, **environ}, capture_output=True, timeout=SECONDS
    )
    assert done.returncode == 125
    assert b"error[inside-job]" in done.stderr
    assert not other.exists()


def test_a_job_speaks_to_the_plane_that_runs_it(home: LocalHome) -> None:
    done = home.run("sh", "-c", f"exec {shlex.join(RUN)} echo inner", check=0)
    assert done.stdout == b"inner\n"
    assert [job["origin"].get("parent_job") is not None for job in home.jobs()].count(True) == 1


def test_why_it_cannot_start_is_what_the_client_reads(home: LocalHome) -> None:
    home.places.create()
    Path(home.places.database).write_bytes(b"this is no database" * 100)
    done = home.run("true", check=125)
    assert b"error[corrupt]" in done.stderr
    home.until(lambda: not home.strays())


def test_a_frozen_plane_is_named_and_left_alone(home: LocalHome) -> None:
    home.run("true", check=0)
    pid = home.pid("plane")
    os.kill(pid, signal.SIGSTOP)
    said = home.run("true", check=125).stderr.decode()
    assert said.startswith(f"error[plane-unreachable]: the plane, process {pid}, is stopped\n")
    mend = said.split("  help: ")[1]
    subprocess.run(mend, shell=True, check=True)
    home.run("true", check=0)
    assert home.pid("plane") == pid


def test_a_job_whose_supervisor_is_told_to_end_is_tried_again(home: LocalHome) -> None:
    script = "echo begun >> ran; test $GPULAYER_ATTEMPT = 2 || exec sleep 1000"
    line = ["submit", "-q", "--retries", "1", "--", "sh", "-c", script]
    job = home.gpulayer(*line).stdout.strip()
    home.until((home.work / "ran").exists)
    os.kill(home.pid("supervisor"), signal.SIGTERM)
    assert home.gpulayer("wait", job).returncode == 0
    assert (home.work / "ran").read_text() == "begun\n" * 2


def test_a_plane_that_gets_term_stops_in_good_order(home: LocalHome) -> None:
    home.run("true", check=0)
    with watched(home.pid("plane")) as gone:
        os.kill(home.pid("plane"), signal.SIGTERM)
        assert gone(SECONDS)
    assert not os.path.exists(home.places.database + "-wal")
    home.run("true", check=0)
