"""What ran is told exactly, compared, and run again, with the real command line and plane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import gpulayer as gl
from tests.support.items import prepared
from tests.support.local_home import SECONDS, LocalHome

pytestmark = pytest.mark.e2e

SECRET = "c0rrect-h0rse"


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome(HORSE=SECRET) as home:
        yield home


def told(home: LocalHome, *words: str) -> dict[str, Any]:
    done = home.gpulayer(*words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fails(home: LocalHome) -> int:
    jobs = told(home, "ps", "-a")["jobs"]
    return sum(job["spec"]["workload"]["command"][-1].endswith("exit 3") for job in jobs)


def test_an_account_says_what_ran_and_no_secret(home: LocalHome) -> None:
    (home.work / "a.py").write_text("import os; print(len(os.environ['HORSE']))\n")
    run = ("run", "--name", "one", "--secret", "HORSE", "-e", "LR=1", "--source", ".")
    done = home.gpulayer(*run, "--", "python", "a.py")
    assert done.stdout == f"{len(SECRET)}\n"
    found = told(home, "status", "one", "--provenance")["provenance"]
    assert found["what"]["argv"][1:] == ["a.py"]
    assert (found["env"], found["secrets"]) == (["LR"], ["HORSE"])
    assert len(found["code"]["source"]) == 64
    [world] = found["ran_in"]
    assert world["python"]["version"].startswith("3.")
    assert SECRET not in json.dumps(found)
    assert SECRET not in home.gpulayer("status", "one", "--provenance").stdout


def test_two_jobs_are_compared_file_by_file(home: LocalHome) -> None:
    for name, text in (("first", "print(1)\n"), ("second", "raise SystemExit(3)\n")):
        (home.work / "b.py").write_text(text)
        home.gpulayer("run", "--name", name, "--source", ".", "--", "python", "b.py")
    found = told(home, "diff", "first", "second")
    named = {(one["part"], one["name"]) for one in found["differences"]}
    assert named == {("spec", "name"), ("code", "source"), ("code", "b.py"),
                     ("result", "error"), ("result", "exit_code"),
                     ("result", "state")}  # fmt: skip
    shown = home.gpulayer("diff", "first", "second").stdout
    assert "    -print(1)\n    +raise SystemExit(3)\n" in shown
    assert home.gpulayer("diff", "first", "first").stdout == "no difference\n"
    here = home.gpulayer("run", "--name", "here", "--", "true")
    assert here.returncode == 0
    assert "not compared: code of here-" in home.gpulayer("diff", "here", "here").stderr


def test_an_exact_retry_has_the_old_code_or_is_refused_by_name(home: LocalHome) -> None:
    (home.work / "c.py").write_text("print('then')\n")
    home.gpulayer("run", "--name", "sent", "--source", ".", "--", "python", "c.py")
    old = told(home, "status", "sent")["job"]["id"]
    home.gpulayer("run", "--name", "here", "--", "python", "c.py")
    (home.work / "c.py").write_text("print('now')\n")
    again = home.gpulayer("retry", old, "--exact", "-q").stdout.strip()
    assert home.gpulayer("wait", again).returncode == 0
    assert home.gpulayer("logs", again).stdout == "then\n"
    assert told(home, "diff", old, again)["differences"] == []
    refused = home.gpulayer("retry", "here", "--exact")
    assert refused.returncode == 1
    assert "error[not-exact]" in refused.stderr
    assert "was in no commit" in refused.stderr
    plain = home.gpulayer("retry", "here", "-q").stdout.strip()
    assert home.gpulayer("wait", plain).returncode == 0
    assert home.gpulayer("logs", plain).stdout == "now\n"


def test_a_cached_call_is_made_once_and_its_output_is_given_again(home: LocalHome) -> None:
    (home.work / "d.py").write_text("import os; print('ran', os.getpid())\n")
    line = ("run", "--cache", "--", "python", "d.py")
    first, again = home.gpulayer(*line), home.gpulayer(*line)
    assert first.stdout.startswith("ran ")
    assert (again.stdout, again.returncode) == (first.stdout, 0)
    said = home.gpulayer("submit", "--cache", "--", "python", "d.py")
    assert said.stderr == f"cached, from job {said.stdout}"
    fresh = home.gpulayer("run", "--cache", "--refresh", "--", "python", "d.py")
    assert fresh.stdout != first.stdout
    assert home.gpulayer(*line).stdout == fresh.stdout
    (home.work / "d.py").write_text("print('another')\n")
    assert home.gpulayer(*line).stdout == "another\n"
    before = fails(home)
    for _ in range(2):
        failed = home.gpulayer("run", "--cache", "--", "sh", "-c", "echo no; exit 3")
        assert (failed.returncode, failed.stdout) == (3, "no\n")
    assert fails(home) == before + 2


def test_a_cached_array_is_run_once_and_a_failed_one_again(home: LocalHome) -> None:
    line = ("--cache", "--", "sh", "-c", "echo {item}; head -c 9 /dev/urandom | od -An -tx1", ":::")
    first = home.gpulayer("run", *line, "a", "b")
    assert home.gpulayer("run", *line, "a", "b").stdout == first.stdout
    assert home.gpulayer("run", "--array", "%1", *line, "a", "b").stdout == first.stdout
    assert home.gpulayer("run", *line, "b", "a").stdout != first.stdout
    bad = ("run", "--cache", "--array", "0-1", "--", "sh", "-c", "echo {index}; exit {index}")
    before = len(home.jobs())
    assert [home.gpulayer(*bad).returncode for _ in range(2)] == [1, 1]
    assert len(home.jobs()) == before + 2


def test_a_cached_map_is_the_one_that_ran_before() -> None:
    with gl.connect(embedded=":memory:"):
        made = gl.remote(cache=True)(prepared)
        first = made.map(range(3))
        processes = list(first)
        again = made.map(range(3), max_parallel=1)
        assert first.job is not None
        assert again.job is not None
        assert (again.job.cached, again.job.id) == (True, first.job.id)
        assert list(again) == processes
        assert list(made.map(range(1, 4))) != processes
        assert list(made.options(cache="refresh").map(range(3))) != processes


def test_a_cached_function_gives_equal_values_and_says_so() -> None:
    with gl.connect(embedded=":memory:") as client:
        work = {"kind": "function", "entrypoint": "os:getpid"}
        first = client.submit(work, cache=True, source="none")
        value = first.result(SECONDS)
        again = client.submit(work, cache=True, source="none")
        assert (again.cached, again.id, again.result(SECONDS)) == (True, first.id, value)
        assert first.cached is False
        other = client.submit(work, cache="refresh", source="none")
        assert other.result(SECONDS) != value
