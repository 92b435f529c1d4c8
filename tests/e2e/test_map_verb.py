"""`gpulayer map` with a real plane: a line of JSON for each item, in their order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_home import SECONDS, LocalHome

pytestmark = pytest.mark.e2e

MODULE = """
def half(n):
    if n % 2:
        raise ValueError(f"{n} is odd")
    print("halved", n)
    return n // 2

def joined(*words, by=""):
    return by.join(map(str, words))

def large(value):
    return [value, "x" * 2_000_000, (1,) if value else []]

def opened(fifo):
    with open(fifo) as file:
        return file.read()
"""


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        (home.work / "m.py").write_text(MODULE)
        yield home


def test_results_are_lines_in_order_and_one_that_failed_is_named(home: LocalHome) -> None:
    done = home.gpulayer("map", "m:half", ":::", "4", "5", "-6")
    failed = {"$gpulayer": 1, "error": "ValueError: 5 is odd"}
    assert [json.loads(line) for line in done.stdout.splitlines()] == [2, failed, -3]
    assert "item 1 failed: ValueError: 5 is odd" in done.stderr
    assert "1 of 3 elements failed" in done.stderr
    assert done.returncode == 1
    done = home.gpulayer("map", "m:half", "--json", "--array", "4-8:2%1")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["index"], one["state"], one["value"]) for one in told] == [
        (4, "succeeded", 2),
        (6, "succeeded", 3),
        (8, "succeeded", 4),
    ]
    assert (done.stderr, done.returncode) == ("", 0)


def test_items_of_a_file_of_several_arguments_here_and_in_a_copy(home: LocalHome) -> None:
    rows = [[1, "a"], [{"b": None}], []]
    lines = "".join(json.dumps({"$gpulayer": 1, "args": row}) + "\n" for row in rows)
    (home.work / "rows").write_text(lines * 400)
    for where in ("here", "any"):
        words = ("--over", "rows", "--kwargs", '{"by": "-"}', "--on", where)
        done = home.gpulayer("map", "m:joined", *words)
        assert done.stdout == '"1-a"\n"{\'b\': None}"\n""\n' * 400, done.stderr
    done = home.gpulayer("map", "m:joined", "--each-line", "m.py", "--kwargs", '{"by": ""}')
    assert "".join(json.loads(line) + "\n" for line in done.stdout.splitlines()) == MODULE


def test_a_large_result_is_printed_whole(home: LocalHome) -> None:
    done = home.gpulayer("map", "m:large", ":::", "0", "1")
    plain, tagged = (json.loads(line) for line in done.stdout.splitlines())
    assert plain == [0, "x" * 2_000_000, []]
    assert tagged == {"$gpulayer": 1, "value": [1, "x" * 2_000_000, {"$tuple": [1]}]}


def test_nothing_is_submitted_where_a_line_is_bad_or_items_are_none(home: LocalHome) -> None:
    before = len(home.jobs())
    (home.work / "m.jsonl").write_text("1\n" * 1_200)
    (home.work / "bad").write_text("1\n2\n{3}\n")
    done = home.gpulayer("map", "m:half", "--over", "bad")
    assert "bad:3: the line is not JSON" in done.stderr
    assert "sed -n 3p bad" in done.stderr
    for words in (
        ["m:half"], ["half", ":::", "1"], ["m:half", ":::"], ["m:half", "--over", "no"],
        ["m:half", "--over", ""], ["m:half", "1"], ["m.py:half", ":::", "1"],
        ["m:half", ":::", "1", ":::", "2"],
    ):  # fmt: skip
        done = home.gpulayer("map", *words)
        assert "help: " in done.stderr
        assert (done.stdout, done.returncode) == ("", 125)
    done = home.gpulayer("map", "m:half", "--each-line", "bad", ":::", "1")
    assert "items come from one place" in done.stderr
    assert home.gpulayer("map", "m:half", "--dry-run", "--over", "m.jsonl").returncode == 0
    done = home.gpulayer("submit", "m:half", ":::", "1", "a b")
    assert "help: gpulayer map m:half ::: 1 'a b'\n" in done.stderr
    assert len(home.jobs()) == before


def test_one_that_no_worker_can_run_says_so_and_prints_nothing(home: LocalHome) -> None:
    done = home.gpulayer("map", "m:half", "--cpus", "5000", ":::", "2", "4")
    assert "error[no-matching-worker]" in done.stderr
    assert (done.stdout, done.returncode) == ("", 125)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_an_end_asked_for_cancel_it_and_keep_what_is_there(
    home: LocalHome, tmp_path: Path, signum: int
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    words = ["map", "m:opened", ":::", "/dev/null", str(fifo)]
    child = subprocess.Popen(
        [sys.executable, "-m", "gpulayer", *words],
        cwd=home.work, env=home.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == '""\n'
    child.send_signal(signum)
    out, said = child.communicate(timeout=SECONDS)
    job = home.jobs()[0]["id"]
    assert f"{job} is cancelled" in said
    assert (out, child.returncode) == ("", 128 + signum)
    assert home.gpulayer("wait", job).returncode == 130
    assert '"value": ""' in home.gpulayer("result", job).stdout


def test_a_reader_that_leaves_ends_nothing(home: LocalHome, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    program = f"{sys.executable} -m gpulayer map m:opened ::: /dev/null {fifo} /dev/null"
    done = home.typed("sh", "-c", f"{program} | (read line; echo x > {fifo})")
    job = home.jobs()[0]["id"]
    assert f"{job} goes on: gpulayer result {job}\n" in done.stderr.decode()
    assert home.gpulayer("wait", job).returncode == 0
