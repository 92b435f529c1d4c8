"""Runs of elements with the real command line, plane, agent and supervisor: what one element does
to itself it does to no other, whoever is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.local_home import LocalHome
from tests.support.programs import Programs

pytestmark = pytest.mark.e2e

WORK = """
import ctypes, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
def f(i):
    if i == 40:
        ctypes.string_at(0)
    if i == 41:
        os._exit(3)
    if i == 42:
        sys.exit(4)
    if i == 43:
        raise ValueError("no")
    if i == 44:
        return float("nan")
    if i == 45:
        pathlib.Path(os.environ["GPULAYER_OUTPUT_DIR"], "out").write_text("45")
    if i in (40, 46):
        os.write(1, b"said by %d\\n" % i)
    print("printed by", i, os.environ["GPULAYER_ARRAY_INDEX"])
    return [i, i * i]
def waits(i):
    if i == 50:
        (here / "reached").touch()
        os.open(str(here / "gate"), os.O_RDONLY)
    with open(str(here / "ran"), "a") as file:
        file.write("%d\\n" % i)
    return i
"""


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        (home.work / "w.py").write_text(WORK)
        yield home


def results(home: LocalHome, job: str) -> dict[int, dict[str, Any]]:
    lines = home.gpulayer("result", job).stdout.splitlines()
    return {one["index"]: one for one in map(json.loads, lines)}


def test_an_element_that_breaks_takes_only_itself(home: LocalHome) -> None:
    job = home.gpulayer("submit", "-q", "--array", "0-299", "w:f").stdout.strip()
    assert home.gpulayer("wait", job).returncode == 1
    told = results(home, job)
    broken = {index for index, one in told.items() if one["state"] != "succeeded"}
    assert broken == {40, 41, 42, 43, 44}
    assert [told[index]["exit_code"] for index in sorted(broken)] == [139, 3, 4, 1, 1]
    assert told[43]["error"]["message"] == "no"
    assert told[44]["error"]["slug"] == "result-not-json"
    assert all(told[i]["value"] == [i, i * i] for i in range(300) if i not in broken)
    assert home.gpulayer("logs", "--index", "46", job).stdout == "said by 46\nprinted by 46 46\n"
    assert home.gpulayer("logs", "--index", "299", job).stdout == "printed by 299 299\n"
    assert sorted(home.gpulayer("logs", job).stdout.splitlines()) == sorted(
        [f"printed by {i} {i}" for i in range(300) if i not in broken] + ["said by 46"]
    )
    home.gpulayer("get", job, "got")
    assert [p.read_text() for p in home.work.glob("got/45/out")] == ["45"]
    assert len(_tasks(home, job)) < 150, "they were given out one by one"


def test_commands_have_an_exit_code_and_a_log_each(home: LocalHome) -> None:
    line = "echo out {index}; echo err >&2; test $GPULAYER_ARRAY_INDEX != 77 || kill -9 $$"
    done = home.gpulayer("run", "--array", "0-399", "--", "sh", "-c", line)
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == sorted(f"out {i}" for i in range(400))
    job = "last"
    told = results(home, job)
    assert {i for i, one in told.items() if one["state"] == "failed"} == {77}
    assert told[77]["exit_code"] == 137
    logs = home.gpulayer("logs", "--index", "123", job)
    assert (logs.stdout, logs.stderr) == ("out 123\n", "err\n")
    assert len(_tasks(home, job)) < 200, "they were given out one by one"


def test_a_run_outlives_its_agent_and_no_element_runs_twice(home: LocalHome) -> None:
    os.mkfifo(home.work / "gate")
    job = home.gpulayer("submit", "-q", "--array", "0-199", "w:waits").stdout.strip()
    home.until((home.work / "reached").exists)
    os.kill(home.pid("agent"), signal.SIGKILL)
    with open(home.work / "gate", "w"):
        pass
    assert home.gpulayer("wait", job).returncode == 0
    assert {i: one["value"] for i, one in results(home, job).items()} == {i: i for i in range(200)}
    ran = sorted(map(int, (home.work / "ran").read_text().split()))
    assert ran == list(range(200))


def test_many_calls_that_travel_in_a_file_are_given_out_in_runs(home: LocalHome) -> None:
    program = """
        import gpulayer as gl
        @gl.remote
        def said(i):
            print("said", i)
            return i
        if __name__ == "__main__":
            mapped = said.map(range(1_200))
            assert list(mapped) == list(range(1_200))
            print(mapped.job.id)
    """
    job = Programs(home).run(program).strip()
    assert len(home.gpulayer("logs", job).stdout.splitlines()) == 1_200
    assert len(_tasks(home, job)) < 300, "they were given out one by one"


def _tasks(home: LocalHome, job: str) -> list[str]:
    """The tasks that ran elements of it, each of which has a segment of its log."""
    found = json.loads(home.gpulayer("status", "--json", job).stdout)["job"]["id"]
    return os.listdir(home.folder / "home" / "logs" / found)
