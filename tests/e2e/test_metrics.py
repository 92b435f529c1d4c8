"""What jobs report, read back while they run and afterwards, whatever dies in between."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.sdk.processes import running
from tests.support.local_home import LocalHome

pytestmark = pytest.mark.e2e

PYTHON = sys.executable


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def series(home: LocalHome, job: str = "last") -> dict[tuple[str, int], list[Any]]:
    told = json.loads(home.gpulayer("metrics", "--json", job).stdout)["series"]
    return {
        (one["name"], one["index"]): [(p["attempt"], p["step"], p["value"]) for p in one["points"]]
        for one in told
    }


def script(home: LocalHome, name: str, text: str) -> str:
    (home.work / name).write_text("import os, sys, time, gpulayer as gl\n" + text)
    return name


def test_a_script_reports_and_says_nothing(home: LocalHome) -> None:
    report = script(
        home,
        "report.py",
        "for step in range(3): gl.report({'loss': 1 / (step + 1)}, step=step)\n"
        "gl.report(loss=float('nan'), step=3)\n",
    )
    done = home.run(PYTHON, report, check=0)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert series(home) == {
        ("loss", 0): [(1, 0, 1.0), (1, 1, 0.5), (1, 2, 1 / 3), (1, 3, "nan")],
    }
    table = home.gpulayer("metrics").stdout.splitlines()
    assert table[0].split() == ["METRIC", "LAST", "STEP", "LEAST", "GREATEST", "AT"]
    assert table[1].split()[:5] == ["loss", "nan", "3", "0.333333", "1"]
    lines = home.gpulayer("metrics", "last", "loss").stdout.splitlines()
    assert [line.split()[-2:] for line in lines[:2]] == [["0", "1"], ["1", "0.5"]]
    assert home.gpulayer("metrics", "-q").stdout == "loss\n"
    assert home.gpulayer("metrics", "last", "acc").returncode == 3
    code = "import gpulayer as gl; print(gl.job('last').metrics()['loss'][1][:2])"
    assert home.typed(PYTHON, "-c", code).stdout == b"(1, 0.5)\n"
    outside = home.typed(PYTHON, report)
    assert (outside.stdout, outside.stderr, outside.returncode) == (b"", b"", 0)


def test_they_are_there_while_it_runs_and_are_followed(home: LocalHome) -> None:
    name = script(
        home,
        "live.py",
        "gl.report(x=1, step=1)\n"
        "while not os.path.exists('enough'): time.sleep(0.05)\n"
        "gl.report(x=2, step=2)\n",
    )
    (home.work / "enough").unlink(missing_ok=True)
    job = home.gpulayer("submit", "-q", "--name", "live", "--", PYTHON, name).stdout.strip()
    home.until(lambda: series(home, job).get(("x", 0)) == [(1, 1, 1.0)])
    (home.work / "enough").touch()
    followed = home.gpulayer("metrics", "-f", "-q", job, "x")
    assert followed.stdout == "1\n2\n"


def test_a_killed_attempt_leaves_what_it_told_and_the_next_goes_on(home: LocalHome) -> None:
    name = script(
        home,
        "killed.py",
        "attempt = int(os.environ['GPULAYER_ATTEMPT'])\n"
        "for step in range(0 if attempt == 1 else 3, 6): gl.report(x=step + attempt, step=step)\n"
        "open(os.environ['GPULAYER_METRICS_FILE'], 'a').write('{\"step\": 6, \"val')\n"
        "attempt > 1 or os.kill(os.getpid(), 9)\n",
    )
    done = home.gpulayer("run", "--retries", "1", "--retry-on", "failed", "--", PYTHON, name)
    assert done.returncode == 0, done
    first, second = [(1, s, s + 1.0) for s in range(3)], [(2, s, s + 2.0) for s in range(3, 6)]
    assert series(home) == {("x", 0): first + second}


def test_an_agent_that_is_killed_loses_and_doubles_nothing(home: LocalHome) -> None:
    name = script(
        home,
        "steady.py",
        "step = 0\n"
        "while not os.path.exists('stop') and step < 5000:\n"
        "    gl.report(x=step, step=step); step += 1; time.sleep(0.01)\n",
    )
    (home.work / "stop").unlink(missing_ok=True)
    job = home.gpulayer("submit", "-q", "--", PYTHON, name).stdout.strip()
    home.until(lambda: series(home, job))
    for pid in [pid for kind, pid in running(home.places) if kind == "agent"]:
        os.kill(pid, signal.SIGKILL)
    seen = max(step for _, step, _ in series(home, job)["x", 0])
    home.until(lambda: max(step for _, step, _ in series(home, job)["x", 0]) > seen + 50)
    (home.work / "stop").touch()
    assert home.gpulayer("wait", job).returncode == 0
    steps = [step for _, step, _ in series(home, job)["x", 0]]
    assert steps == list(range(len(steps)))


def test_elements_of_an_array_are_told_apart(home: LocalHome) -> None:
    name = script(home, "element.py", "gl.report(x=int(sys.argv[1]) * 2, step=1)\n")
    done = home.gpulayer("run", "--array", "0-9:3", "--", PYTHON, name, "{index}")
    assert done.returncode == 0, done
    told = series(home)
    assert {index: points[0][2] for (_, index), points in told.items()} == {
        0: 0,
        3: 6,
        6: 12,
        9: 18,
    }
    one = home.gpulayer("metrics", "--index", "6", "last", "x").stdout
    assert one.split()[-1] == "12"
