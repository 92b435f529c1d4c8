"""A disk that is full or cannot be written: a clear word, nothing lost, work again by itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.runtime.journal import Journal
from tests.support.faults import NEEDS_ROOT, SmallDisk, small_disk
from tests.support.local_home import SECONDS, LocalHome

pytestmark = [pytest.mark.e2e, NEEDS_ROOT]

WAITS = ("sh", "-c", "echo early; while ! test -e go; do sleep 0.02; done; echo late; exit 7")


@pytest.fixture(params=["home", "run"])
def full(request: pytest.FixtureRequest) -> Iterator[tuple[LocalHome, SmallDisk]]:
    """A home with one job in flight, whose data or runtime folder is a small disk."""
    with LocalHome() as home, small_disk(home.folder / request.param) as disk:
        home.run("true", check=0)
        yield home, disk
        home.kill_all()


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


def test_what_is_accepted_is_done_and_the_rest_is_refused_by_name(
    full: tuple[LocalHome, SmallDisk],
) -> None:
    home, disk = full
    in_flight = home.popen(*WAITS, stdout=subprocess.PIPE)
    home.until_running(1)
    disk.fill()
    before = len(home.jobs())
    refused = cli(home, "submit", "--", "true")
    assert refused.returncode == 1
    assert refused.stderr.startswith(b"error[disk-full]: ")
    assert len(home.jobs()) == before
    for words in (["ps"], ["status", "last"], ["gc", "--dry-run"], ["doctor"], ["events", "last"]):
        assert cli(home, *words).returncode == 0, words
    (home.work / "go").touch()
    out, _ = in_flight.communicate(timeout=SECONDS)
    assert (in_flight.returncode, out) == (7, b"early\nlate\n")
    home.until(lambda: home.processes() == ["agent", "plane", "supervisor"])
    disk.empty()
    assert home.run("echo", "again", check=0).stdout == b"again\n"
    home.until(lambda: all(job["finished_at"] for job in home.jobs()))
    assert sorted(job["exit_code"] for job in home.jobs()) == [0, 0, 7]
    assert home.stop()
    assert home.strays() == []


@pytest.mark.parametrize("victims", [["plane"], ["agent"], ["supervisor"], ["agent", "plane"]])
def test_who_dies_on_a_full_disk_comes_back_when_there_is_room(victims: list[str]) -> None:
    with LocalHome() as home, small_disk(home.folder / "home") as disk:
        home.run("true", check=0)
        ends = home.popen(*WAITS, stdout=subprocess.PIPE)
        assert ends.stdout is not None
        assert ends.stdout.readline() == b"early\n"
        home.until_running(1)
        disk.fill()
        for victim in victims:
            home.kill(victim)
        met = cli(home, "run", "--", "echo", "hi")
        assert met.returncode in (0, 125)
        assert met.returncode == 0 or met.stderr.startswith(
            (b"error[disk-full]: ", b"error[plane-", b"error[read-only]: ")
        )
        (home.work / "go").touch()
        disk.empty()
        out, _ = ends.communicate(timeout=SECONDS)
        lost = "supervisor" in victims
        assert (ends.returncode, out) == ((125, b"") if lost else (7, b"late\n"))
        assert home.run("echo", "again", check=0).stdout == b"again\n"
        home.until(lambda: all(job["finished_at"] for job in home.jobs()))
        home.kill_all()


def test_a_flood_that_fills_the_disk_ends_with_its_own_exit() -> None:
    with LocalHome() as home, small_disk(home.folder / "home") as disk:
        home.run("true", check=0)
        flood = home.run("sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x; exit 3")
        assert flood.returncode == 3
        assert flood.stdout == b"x" * 20_000_000
        home.until(lambda: home.processes() == ["agent", "plane", "supervisor"])
        for path in [*(disk.path / "logs").rglob("*.seg"), *(disk.path / "tasks").glob("*.seg")]:
            path.write_bytes(b"")
        home.until(lambda: home.run("echo", "again").stdout == b"again\n")
        home.kill_all()


def test_a_folder_that_cannot_be_written_is_named() -> None:
    with LocalHome() as home, small_disk(home.folder / "home") as disk:
        home.run("true", check=0)
        assert home.stop()
        disk.remount("ro")
        refused = cli(home, "run", "--", "true")
        assert refused.returncode == 125
        assert refused.stderr.startswith(b"error[read-only]: ")
        home.until(lambda: home.strays() == [])  # the candidate ends after it has told why
        disk.remount("rw")
        assert home.run("echo", "again", check=0).stdout == b"again\n"
        home.kill_all()


def test_the_journal_of_a_full_disk_loses_no_line(tmp_path: Any) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        path = str(disk.path / "journal")
        journal = Journal(path)
        journal.intent({"task_id": "a"})
        disk.fill()
        long = {"task_id": "long" * 1_200}
        with pytest.raises(OSError, match="No space"):
            journal.intent(long)
        disk.empty()
        journal.intent({"task_id": "b"})
        assert {"a", "b"} <= set(Journal(path).tasks)
        journal.close()
