"""Arrays with the real command line, plane, agent and supervisor."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.local_home import SECONDS, LocalHome

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def gpulayer(home: LocalHome, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpulayer", *words],
        cwd=home.work,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def status(home: LocalHome, job: str = "last") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gpulayer(home, "status", "--json", job).stdout)["job"]
    return found


def test_a_range_runs_once_for_each_index_and_fails_with_those_that_did(home: LocalHome) -> None:
    line = "echo $GPULAYER_ARRAY_INDEX {index}; test {index} != 3 || exit 5"
    done = gpulayer(home, "run", "--array", "0-9:3%2", "--", "sh", "-c", line)
    assert sorted(done.stdout.split("\n")) == ["", "0 0", "3 3", "6 6", "9 9"]
    assert done.returncode == 1
    found = status(home)
    assert found["array"]["failed_indices"] == [3]
    assert (found["array"]["succeeded"], found["state"]) == (3, "failed")
    assert gpulayer(home, "logs", "--index", "3").stdout == "3 3\n"
    assert "3 succeeded, 1 failed" in gpulayer(home, "status").stdout
    assert "1 of 4 elements failed" in done.stderr
    assert "1 of 4 elements failed" in gpulayer(home, "ps", "-a", "-n", "1").stdout
    assert gpulayer(home, "logs", "--index", "4").returncode == 3


def test_a_retry_runs_the_failed_ones_alone(home: LocalHome) -> None:
    line = "echo {item} >> ran; test {item} != b || test -e mended"
    assert gpulayer(home, "run", "--", "sh", "-c", line, ":::", "a", "b", "c").returncode == 1
    (home.work / "mended").touch()
    (home.work / "ran").unlink()
    gpulayer(home, "retry", "-q")
    assert gpulayer(home, "wait").returncode == 0
    assert (home.work / "ran").read_text() == "b\n"
    assert status(home)["array"]["elements"] == 1


def test_lines_and_combinations(home: LocalHome) -> None:
    (home.work / "lines").write_text("one\ntwo words\n")
    done = gpulayer(home, "run", "--each-line", "lines", "--", "printf", "[%s]\\n")
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
    done = gpulayer(home, "run", *words)
    assert sorted(done.stdout.splitlines()) == ["0.01 1", "0.01 2", "0.1 1", "0.1 2"]
    (home.work / "bad").write_bytes(b"a\nb\xff\n")
    done = gpulayer(home, "submit", "--each-line", "bad", "--", "echo")
    assert "bad:2:" in done.stderr
    assert done.returncode == 2


def test_to_cancel_ends_what_runs_and_begins_nothing_more(home: LocalHome) -> None:
    (home.work / "begun").mkdir()
    line = "touch begun/{index}; sleep 600"
    job = gpulayer(home, "submit", "-q", "--array", "0-999", "--", "sh", "-c", line).stdout.strip()
    try:
        while not list((home.work / "begun").iterdir()):
            status(home, job)
    finally:
        gpulayer(home, "cancel", "--now", job)
    assert gpulayer(home, "wait", job).returncode == 130
    found = status(home, job)
    assert (found["state"], found["array"]["cancelled"]) == ("cancelled", 1000)
    assert len(list((home.work / "begun").iterdir())) < 100


def test_files_of_elements_come_home_below_their_index(home: LocalHome) -> None:
    line = "echo {index} > $GPULAYER_OUTPUT_DIR/out"
    done = gpulayer(home, "run", "--get=got", "--array", "4-5", "--", "sh", "-c", line)
    assert done.returncode == 0
    assert {p.parent.name: p.read_text() for p in home.work.glob("got/*/out")} == {
        "4": "4\n",
        "5": "5\n",
    }


def test_values_of_a_function_are_told_by_index(home: LocalHome) -> None:
    (home.work / "m.py").write_text("def f(x, y=0):\n    return [x, y]\n")
    words = ["--matrix", "x=1,2", "y=0.5", "m:f"]
    job = gpulayer(home, "submit", "-q", *words).stdout.strip()
    assert gpulayer(home, "wait", job).returncode == 0
    told = [json.loads(line) for line in gpulayer(home, "result", job).stdout.splitlines()]
    assert [(one["index"], one["value"]) for one in told] == [(0, [1, 0.5]), (1, [2, 0.5])]
