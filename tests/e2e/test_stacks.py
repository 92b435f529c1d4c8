"""`gpulayer stacks`: where the ranks of a running job stand."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.support.local_home import SECONDS, LocalHome
from tests.support.programs import Programs

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="the signal is one of Linux's"),
]

HANGS = """
    import os, sys

    def wait(name):
        os.mkfifo(name)
        open("up." + name, "w").close()
        with open(name) as file:
            print(file.read())

    def load():
        wait("odd")

    def step(rank):
        if rank == "1":
            load()
        else:
            wait("even" + rank)

    step(os.environ["RANK"])
"""
NAMES = ("even0", "odd", "even2")


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def test_the_odd_rank_stands_out_and_the_job_goes_on(home: LocalHome) -> None:
    for name in NAMES:
        for file in (home.work / name, home.work / f"up.{name}"):
            file.unlink(missing_ok=True)
    Programs(home).write(HANGS, "train.py")
    words = ["-d", "--launcher", "direct", "--procs-per-node", "3", "train.py"]
    job = home.gpulayer("launch", *words).stdout.strip()
    home.until(lambda: all((home.work / f"up.{name}").exists() for name in NAMES))
    told: list[dict[str, object]] = []

    def all_told() -> bool:  # what has just begun is not asked
        told[:] = json.loads(home.gpulayer("stacks", job, "--json").stdout)["processes"]
        return all(process["source"] for process in told)

    home.until(all_told)
    assert sorted(process["rank"] for process in told) == [0, 1, 2]  # type: ignore[type-var]
    shown = home.gpulayer("stacks", job).stdout.splitlines()
    assert shown[0] == "2 ranks: 0, 2:"
    at = shown.index("1 rank: 1:")
    assert [line.rpartition(" ")[2] for line in shown[at + 1 :]] == [
        "<module>",
        "step",
        "load",
        "wait",
    ]
    assert [e["kind"] for e in home.wire().call("GET", f"/v1/jobs/{job}/events")["events"]].count(
        "stacks"
    ) >= 2
    for name in NAMES:
        (home.work / name).write_text(name)
    ended = home.wire().call("GET", f"/v1/jobs/{job}?wait=60", park=SECONDS)
    assert ended["state"] == "succeeded"


def test_a_command_that_no_launcher_began_is_left_alone(home: LocalHome) -> None:
    """Nothing is sent to it; py-spy may see it where there is one."""
    for name in ("plain", "up.plain"):
        (home.work / name).unlink(missing_ok=True)
    text = """
        import os
        os.mkfifo("plain")
        open("up.plain", "w").close()
        print(open("plain").read())
    """
    Programs(home).write(text, "plain.py")
    job = home.gpulayer("submit", "-q", "--", "python", "plain.py").stdout.strip()
    home.until(lambda: (home.work / "up.plain").exists())
    shown = home.gpulayer("stacks", job)
    assert shown.returncode == 0
    if "pid" not in shown.stdout.splitlines()[0]:
        assert "py-spy is not installed" in shown.stdout
    (home.work / "plain").write_text("end")
    ended = home.wire().call("GET", f"/v1/jobs/{job}?wait=60", park=SECONDS)
    assert ended["state"] == "succeeded"
    assert home.gpulayer("stacks", job).returncode == 1
