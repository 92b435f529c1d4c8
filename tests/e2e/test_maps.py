"""Maps with a real plane and real processes: one job of many elements, whose results outlive the
program that began it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import gpulayer as gl
from gpulayer.sdk.client import Client
from gpulayer.sdk.connect import Connection
from gpulayer.sdk.embedded import open_embedded
from tests.support.items import given, opened, pair
from tests.support.local_home import LocalHome
from tests.support.person import Person
from tests.support.programs import Programs
from tests.support.value_kinds import same

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


@pytest.fixture
def programs(home: LocalHome) -> Programs:
    shutil.rmtree(home.work)
    home.work.mkdir()
    return Programs(home)


@pytest.fixture(scope="module")
def plane() -> Iterator[Client]:
    with Connection(open_embedded(":memory:")) as client:
        yield client


def test_items_of_any_kind_and_size_come_back_equal_in_their_order(plane: Client) -> None:
    few = [(1, "a"), (2.5, None), ([{"$x": 1}], {1, 2})]
    assert list(pair.map(*zip(*few, strict=True))) == few
    many = [(number, "x" * 2_000, {number}) for number in range(12)]
    mapped = pair.map(*map(iter, zip(*many, strict=True)))
    assert same(list(mapped), many)
    assert mapped.job is not None
    assert mapped.job.refresh()["spec"]["array"] == {"count": 12}
    assert list(pair.map([])) == []


def test_a_bad_result_is_that_items_own(plane: Client) -> None:
    items = ["raise", "nan", "type", "exit", "die", "well"]
    mapped = given.map(items, return_exceptions=True)
    *bad, well = list(mapped)
    assert well == "well"
    assert [error.code for error in bad] == [
        "job-failed",
        "result-not-json",
        "result-not-json",
        "job-failed",
        "killed",
    ]
    assert [str(error).partition(" of job ")[0] for error in bad] == [
        f"element {number}" for number in range(5)
    ]
    assert "result is nan" in str(bad[1])
    assert repr(bad[0].__cause__) == "ValueError('a bad item')"
    assert "a bad item" in "".join(bad[0].__cause__.__notes__)
    failed = mapped.failed()
    assert [element.index for element in failed] == [0, 1, 2, 3, 4]
    assert (failed[3].exit_code, list(failed[4].logs())) == (7, ["its last words"])
    with pytest.raises(gl.JobFailedError, match="SIGKILL") as caught:
        failed[4].result()
    assert any("its last words" in note for note in caught.value.__notes__)
    with pytest.raises(gl.JobFailedError, match=r"element 0 of job .* raised ValueError"):
        list(given.map(["raise"]))


def test_what_cannot_travel_is_refused_with_its_number_before_anything_is_submitted(
    plane: Client,
) -> None:
    before = len(plane.jobs(all=True))
    with pytest.raises(gl.UsageError, match=r"item 2: args\[1\] is nan"):
        pair.map([1, 2, 3], [1, 2, float("nan")])
    with pytest.raises(ZeroDivisionError):
        given.map(1 // number for number in (2, 1, 0))
    with pytest.raises(gl.UsageError, match="has an array already"):
        given.options(array=3).map([1])
    assert len(plane.jobs(all=True)) == before


def test_results_come_in_order_or_as_they_end(plane: Client, tmp_path: Any) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    mapped = opened.map([fifo, ""], in_order=False)
    assert len(mapped) == 2
    ended = iter(mapped)
    assert next(ended) == "at once"
    with open(fifo, "w") as file:
        file.write("later")
    assert list(ended) == ["later"]
    assert [element.index for element in mapped.as_completed()] == [1, 0]
    assert mapped.job is not None
    assert list(mapped.job.results()) == ["later", "at once"]


def test_a_long_element_holds_back_nothing_that_ended_before_it(
    plane: Client, tmp_path: Any
) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    mapped = opened.map([*[""] * 30, fifo, "", ""], in_order=False, max_parallel=1)
    ended = iter(mapped)
    assert [next(ended) for _ in range(30)] == ["at once"] * 30
    with open(fifo, "w") as file:
        file.write("later")
    assert sorted(ended) == ["at once", "at once", "later"]


def test_to_stop_iterating_ends_nothing_and_to_cancel_does(plane: Client, tmp_path: Any) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    mapped = opened.map(["", fifo, fifo], max_parallel=2)
    for value in mapped:
        assert value == "at once"
        break
    assert mapped.job is not None
    assert not mapped.job.done()
    mapped.cancel()
    with pytest.raises(gl.JobCancelledError):
        list(mapped)
    states = [element.state for element in mapped.as_completed()]
    assert states == ["succeeded", "cancelled", "cancelled"]


def test_more_failures_than_allowed_end_it_and_what_never_began_says_why(plane: Client) -> None:
    mapped = given.map(["raise"] * 3, max_failures=0, max_parallel=1, return_exceptions=True)
    first, *others = list(mapped)
    assert first.code == "job-failed"
    assert [type(error) for error in others] == [gl.JobCancelledError] * 2
    assert "before it began" in str(others[1])
    assert "no more than 0 may" in others[1].why


def test_one_that_no_worker_can_run_fails_instead_of_waiting(plane: Client) -> None:
    with pytest.raises(gl.SchedulingError):
        list(given.options(cpus=5_000).map([1, 2]))


def test_failed_items_are_tried_again_in_their_places(programs: Programs) -> None:
    said = programs.run("""
        import os, gpulayer as gl

        @gl.remote
        def once(x):
            if x != 1 and not os.path.exists(f"seen{x}"):
                open(f"seen{x}", "w").close()
                raise ValueError(x)
            print("in", x)
            return x * 10

        if __name__ == "__main__":
            done = once.map([1, 2, 3])
            first = done.job
            print(len(done), done.failed())
            print(list(done.resume()), len(done), list(done.job.logs()), done.failed())
            print([one.index for one in done.as_completed()][0], done.resume().job is done.job)
            print(list(gl.job(done.job.id).results()), list(gl.job(first.id).results(
                return_exceptions=True))[0])
    """)
    lines = said.splitlines()
    assert lines[0].count("failed>") == 2
    assert lines[1] == "[10, 20, 30] 3 ['in 2', 'in 3'] []"
    assert lines[2:] == ["0 True", "[10, 20, 30] 10"]


BEGUN = """
    import sys, gpulayer as gl

    @gl.remote
    def opened(fifo):
        if not fifo:
            return "at once"
        with open(fifo) as file:
            return file.read()

    if __name__ == "__main__":
        mapped = opened.map(["", "fifo", ""], max_parallel=1)
        values = iter(mapped)
        print(mapped.job.id, flush=True)
        print(next(values), flush=True)
        print(*values, flush=True)
"""


def test_results_outlive_the_program_that_began_it(home: LocalHome, programs: Programs) -> None:
    os.mkfifo(home.work / "fifo")
    with programs.start(BEGUN) as begun:
        job = begun.line()
        assert begun.line() == "at once"
        begun.kill()
    (home.work / "fifo").write_text("later")
    program = "import gpulayer as gl; print(list(gl.job('last').results()))"
    done = programs.run_words(["-c", program.replace("last", job)])
    assert done.stdout == "['at once', 'later', 'at once']\n", done.stderr


def test_it_goes_on_when_the_plane_was_killed(home: LocalHome, programs: Programs) -> None:
    os.mkfifo(home.work / "fifo")
    with programs.start(BEGUN) as begun:
        begun.line()
        assert begun.line() == "at once"
        home.kill("plane")
        (home.work / "fifo").write_text("later")
        assert begun.line() == "later at once"
        assert begun.end()[0] == 0


def test_ctrl_c_while_it_waits_cancels_it(home: LocalHome, programs: Programs) -> None:
    os.mkfifo(home.work / "fifo")
    command = [sys.executable, programs.write(BEGUN)]
    with Person(command, {**home.environ, "TERM": "xterm"}, home.work) as ada:
        ada.sees("1/3, 1 running")
        ada.types("\x03")
        assert ada.ends() != 0
    found = home.wire().call("GET", "/v1/jobs/last?wait=60", park=60)
    assert (found["state"], found["array"]["succeeded"]) == ("cancelled", 1)


def test_a_terminal_shows_one_line_and_a_pipe_none(home: LocalHome, programs: Programs) -> None:
    os.mkfifo(home.work / "fifo")
    command = [sys.executable, programs.write(BEGUN)]
    with Person(command, {**home.environ, "TERM": "xterm"}, home.work) as ada:
        ada.sees("] 1/3, 1 running")
        (home.work / "fifo").write_text("later")
        ada.sees("later at once")
    assert b"\nopened [" not in ada.screen
    assert b"\r\x1b[Klater at once" in ada.screen
    with programs.start(BEGUN) as begun:
        begun.line()
        (home.work / "fifo").write_text("later")
        assert begun.end()[2] == ""


def test_ps_shows_it_as_one_line_with_counts(home: LocalHome, programs: Programs) -> None:
    os.mkfifo(home.work / "fifo")
    with programs.start(BEGUN) as begun:
        job = begun.line()
        assert begun.line() == "at once"
        shown = home.typed(sys.executable, "-m", "gpulayer", "ps").stdout.decode()
        (row,) = [line for line in shown.splitlines() if line.startswith(job)]
        assert " 1/3" in row
        (home.work / "fifo").write_text("later")
        assert begun.end()[0] == 0
