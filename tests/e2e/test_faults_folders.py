"""Folders, files and processes that are not as we left them: used rightly, or refused by name."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.faults import NEEDS_ROOT, delete
from tests.support.local_home import SECONDS, LocalHome
from tests.support.supervisor import SupervisorHome, eventually

pytestmark = pytest.mark.e2e


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def cli(home: LocalHome, *words: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "gpulayer", *words],
        env=home.environ,
        cwd=home.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )


def data(home: LocalHome) -> Path:
    return home.folder / "home"


def is_refused(home: LocalHome, slug: str) -> None:
    refused = cli(home, "run", "--", "true")
    assert refused.returncode == 125
    assert refused.stderr.decode().startswith(f"error[{slug}]: ")
    home.until(lambda: home.strays() == [])


@pytest.mark.parametrize(
    "name",
    [
        b"d" * 100 + b"/" + b"e" * 100,
        "with space ü 日本\nq'\"$x".encode(),
        b"caf\xe9",
        b"a%20b?c#d",
    ],
    ids=["long", "odd", "no text", "uri"],
)
def test_a_home_may_be_called_anything(home: LocalHome, name: bytes) -> None:
    home.environ["GPULAYER_HOME"] = os.fsdecode(os.fsencode(data(home)) + b"/" + name)
    assert home.run("echo", "well", check=0).stdout == b"well\n"
    assert cli(home, "submit", "--", "true").returncode == 0
    for words in (["ps", "-a"], ["status", "last"], ["doctor"], ["ps", "-a", "--json"]):
        assert cli(home, *words).returncode == 0, words
    assert cli(home, "wait", "last").returncode == 0
    assert home.stop()
    assert home.strays() == []


@NEEDS_ROOT
def test_a_folder_of_somebody_else(home: LocalHome) -> None:
    data(home).mkdir()
    os.chown(data(home), 12_345, 12_345)
    is_refused(home, "folder-unsafe")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write(home: LocalHome, mode: int) -> None:
    data(home).mkdir()
    data(home).chmod(mode)
    is_refused(home, "folder-unsafe")


def test_a_file_where_the_folder_should_be(home: LocalHome) -> None:
    data(home).write_text("x")
    is_refused(home, "folder-unsafe")


def test_a_runtime_folder_that_leads_elsewhere(home: LocalHome) -> None:
    elsewhere = home.folder / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    Path(home.places.runtime).symlink_to(elsewhere)
    is_refused(home, "folder-unsafe")
    assert os.listdir(elsewhere) == []


def test_a_session_folder_that_others_may_write_is_not_used(home: LocalHome) -> None:
    session = home.folder / "run"
    session.chmod(0o777)
    assert home.run("echo", "well", check=0).stdout == b"well\n"
    assert os.listdir(session) == []
    assert home.stop()


def test_a_database_that_leads_elsewhere(home: LocalHome) -> None:
    data(home).mkdir(mode=0o700)
    (data(home) / "db.sqlite").symlink_to(home.folder / "elsewhere")
    is_refused(home, "folder-unsafe")
    assert not (home.folder / "elsewhere").exists()


@NEEDS_ROOT
def test_a_database_of_somebody_else(home: LocalHome) -> None:
    data(home).mkdir(mode=0o700)
    (data(home) / "db.sqlite").touch()
    os.chown(data(home) / "db.sqlite", 12_345, 12_345)
    is_refused(home, "folder-unsafe")


def spoil_header(file: Path) -> None:
    file.write_bytes(b"\xff" * 100 + file.read_bytes()[100:])


def spoil_pages(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:4096].ljust(file.stat().st_size, b"\xaa"))


def make_newer(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "slug"),
    [(spoil_header, "corrupt"), (spoil_pages, "corrupt"), (make_newer, "newer-database")],
)
def test_a_database_that_cannot_be_read(
    home: LocalHome, spoil: Callable[[Path], None], slug: str
) -> None:
    home.run("true", check=0)
    assert home.stop()
    file = data(home) / "db.sqlite"
    spoil(file)
    spoiled = file.read_bytes()
    is_refused(home, slug)
    assert file.read_bytes() == spoiled
    data(home).rename(home.folder / "home.damaged")  # as the hint says
    assert home.run("echo", "well", check=0).stdout == b"well\n"


def test_a_log_of_the_database_that_is_cut_short(home: LocalHome) -> None:
    """What is left is a state that once was: every job of it is whole, and work goes on."""
    for _ in range(5):
        home.run("true", check=0)
    home.kill_all()
    log = data(home) / "db.sqlite-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3])
    assert home.run("echo", "well", check=0).stdout == b"well\n"
    home.until(lambda: all(job["finished_at"] for job in home.jobs()))
    assert 1 <= len(home.jobs()) <= 6


GARBAGE = (
    b'[]\n5\nnull\n{"intent": 5}\n{"intent": {"a": 1}}\n{"intent": {"task_id": "../../victim"}}\n'
    b'{"intent": {"task_id": 7}}\n\xff\xfe\n{"forget": []}\n'
)


def test_garbage_in_the_files_of_a_dead_supervisor(home: LocalHome) -> None:
    home.run("true", check=0)
    client = home.popen("sleep", "60")
    home.until_running(1)
    home.kill_all()
    client.wait(SECONDS)
    (home.folder / "victim.seg").touch()
    journal = data(home) / "sup" / "journal"
    journal.write_bytes(GARBAGE + journal.read_bytes() + b'{"intent": {"task_id": "half')
    for file in (data(home) / "tasks").glob("*.*"):
        file.write_bytes(b"\xff garbage {\n")
    for name in ("plane.lock", "agent.lock", "sup/lock"):
        (data(home) / name).write_bytes(b"\xff\n\xff\n\n\0\n")
    assert home.run("echo", "well", check=0).stdout == b"well\n"
    home.until(lambda: all(job["finished_at"] for job in home.jobs()))
    assert (home.folder / "victim.seg").exists()
    assert home.stop()


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_home_that_goes_takes_everybody_along(home: LocalHome, how: str) -> None:
    client = home.popen("sh", "-c", "sleep 600 & setsid sleep 600 & wait")
    home.until_running(1)
    if how == "deleted":
        delete(data(home))
    else:
        data(home).rename(home.folder / "moved")
    client.wait(SECONDS)
    home.until(lambda: home.strays() == [])
    assert not data(home).exists()


def test_sockets_that_are_swept_away_come_back(home: LocalHome) -> None:
    client = home.popen(
        "sh", "-c", "while ! test -e go; do sleep 0.02; done; echo late", stdout=subprocess.PIPE
    )
    home.until_running(1)
    delete(home.folder / "run")
    (home.folder / "run").mkdir(mode=0o700)
    assert home.run("echo", "well", check=0).stdout == b"well\n"
    (home.work / "go").touch()
    assert client.communicate(timeout=SECONDS) == (b"late\n", None)
    home.until(lambda: home.processes() == ["agent", "plane", "supervisor"])


@pytest.mark.parametrize("kind", ["plane", "agent", "supervisor"])
def test_who_is_stopped_is_named_unasked_and_can_be_ended(home: LocalHome, kind: str) -> None:
    home.run("true", check=0)
    pid = home.pid(kind)
    os.kill(pid, signal.SIGSTOP)
    told = cli(home, "doctor").stdout.decode()
    assert f"kill -CONT {pid}" in told
    assert ("plane:       stopped\n" in told) == (kind == "plane")
    assert "does not answer" not in told  # who is asked all the same has 20 s
    os.kill(pid, signal.SIGCONT)
    assert home.run("echo", "well", check=0).stdout == b"well\n"
    os.kill(pid, signal.SIGSTOP)
    assert cli(home, "stop", "--force").returncode == 0
    assert home.strays() == []


def test_a_supervisor_listens_again_once_there_is_a_folder(tmp_path: Path) -> None:
    with SupervisorHome(tmp_path) as supervisor:
        process = supervisor.process
        assert process is not None

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{process.pid}/fd"))

        before = descriptors()
        delete(supervisor.runtime)
        eventually(lambda: descriptors() < before)  # it has looked, and there was no folder
        (supervisor.runtime / "envelopes").mkdir(parents=True)
        eventually(lambda: os.path.exists(supervisor.socket))
        agent = supervisor.connect("agent")
        assert supervisor.run(agent, "echo", "well").said() == b"well\n"
