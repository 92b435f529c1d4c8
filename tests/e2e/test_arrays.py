"""Arrays with the real command line, plane, agent and supervisor."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.local_home import LocalHome

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def status(home: LocalHome, job: str = "last") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(home.gpulayer("status", "--json", job).stdout)["job"]
    return found


def test_a_range_runs_once_for_each_index_and_fails_with_those_that_did(home: LocalHome) -> None:
    line = "echo $GPULAYER_ARRAY_INDEX {index}; test {index} != 3 || exit 5"
    done = home.gpulayer("run", "--array", "0-9:3%2", "--", "sh", "-c", line)
    assert sorted(done.stdout.split("\n")) == ["", "0 0", "3 3", "6 6", "9 9"]
    assert done.returncode == 1
    found = status(home)
    assert found["array"]["failed_indices"] == [3]
    assert (found["array"]["succeeded"], found["state"]) == (3, "failed")
    assert home.gpulayer("logs", "--index", "3").stdout == "3 3\n"
    assert "3 succeeded, 1 failed" in home.gpulayer("status").stdout
    assert "1 of 4 elements failed" in done.stderr
    assert "1 of 4 elements failed" in home.gpulayer("ps", "-a", "-n", "1").stdout
    assert home.gpulayer("logs", "--index", "4").returncode == 3


def test_a_retry_runs_the_failed_ones_alone(home: LocalHome) -> None:
    line = "echo {item} >> ran; test {item} != b || test -e mended"
    assert home.gpulayer("run", "--", "sh", "-c", line, ":::", "a", "b", "c").returncode == 1
    (home.work / "mended").touch()
    (home.work / "ran").unlink()
    home.gpulayer("retry", "-q")
    assert home.gpulayer("wait").returncode == 0
    assert (home.work / "ran").read_text() == "b\n"
    assert status(home)["array"]["elements"] == 1


def test_lines_and_combinations(home: LocalHome) -> None:
    (home.work / "lines").write_text("one\ntwo words\n")
    done = home.gpulayer("run", "--each-line", "lines", "--", "printf", "[%s]\\n")
    assert sorted(done.stdout.splitlines()) == ["[one]", "[two words]"]
    piped = f"printf 'a\\nb\\n' | {sys.executable} -m gpulayer run --each-line - -- echo got"
    assert sorted(home.typed("sh", "-c", piped).stdout.split(b"\n")) == [b"", b"got a", b"got b"]
    words = [
        "--matrix",
        "lr=0.1,0.01",
        "seed=1,2",
        "--",
        "sh",
        "-c",
        "echo $GPULAYER_PARAM_LR {seed}",
    ]
    done = home.gpulayer("run", *words)
    assert sorted(done.stdout.splitlines()) == ["0.01 1", "0.01 2", "0.1 1", "0.1 2"]
    (home.work / "bad").write_bytes(b"a\nb\xff\n")
    done = home.gpulayer("submit", "--each-line", "bad", "--", "echo")
    assert "bad:2:" in done.stderr
    assert done.returncode == 2


def test_to_cancel_ends_what_runs_and_begins_nothing_more(home: LocalHome) -> None:
    (home.work / "begun").mkdir()
    line = "touch begun/{index}; sleep 600"
    job = home.gpulayer("submit", "-q", "--array", "0-999", "--", "sh", "-c", line).stdout.strip()
    try:
        while not list((home.work / "begun").iterdir()):
            status(home, job)
    finally:
        home.gpulayer("cancel", "--now", job)
    assert home.gpulayer("wait", job).returncode == 130
    found = status(home, job)
    assert (found["state"], found["array"]["cancelled"]) == ("cancelled", 1000)
    assert len(list((home.work / "begun").iterdir())) < 100


def test_files_of_elements_come_home_below_their_index(home: LocalHome) -> None:
    line = "echo {index} > $GPULAYER_OUTPUT_DIR/out"
    done = home.gpulayer("run", "--get=got", "--array", "4-5", "--", "sh", "-c", line)
    assert done.returncode == 0
    assert {p.parent.name: p.read_text() for p in home.work.glob("got/*/out")} == {
        "4": "4\n",
        "5": "5\n",
    }


def test_values_of_a_function_are_told_by_index(home: LocalHome) -> None:
    (home.work / "m.py").write_text("def f(x, y=0):\n    return [x, y]\n")
    words = ["--matrix", "x=1,2", "y=0.5", "m:f"]
    job = home.gpulayer("submit", "-q", *words).stdout.strip()
    assert home.gpulayer("wait", job).returncode == 0
    told = [json.loads(line) for line in home.gpulayer("result", job).stdout.splitlines()]
    assert [(one["index"], one["value"]) for one in told] == [(0, [1, 0.5]), (1, [2, 0.5])]
