# ruff: noqa: F401, F811
"""What goes wrong while an environment is made, on a real plane: each says why, in which phase, on
which worker and what to type, and the next attempt begins anew."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from gpulayer.runtime import processes
from gpulayer.worker.environments.building import MARK
from tests.e2e.test_environments import SHOW, Terminal, base, environments, packages, terminal
from tests.support.faults import NEEDS_ROOT, small_disk
from tests.support.lines import refusal
from tests.support.packages import BasePython, Packages

pytestmark = pytest.mark.e2e

NOBODY = "http://127.0.0.1:1/simple"


def failed(
    terminal: Terminal, done: subprocess.CompletedProcess[str], slug: str, *words: str
) -> None:
    """It is told in full, nothing is left, and what it says to type can be typed."""
    assert done.returncode in (125, 126), done
    said = done.stderr
    assert said.startswith(f"error[{slug}]: "), said
    job = terminal.job()
    assert f"prepared on {job['worker']}: " in said
    assert f"where: worker {job['worker']}, phase environment" in said
    for word in words:
        assert word in said, said
    helps = [line.partition("help: ")[2] for line in said.splitlines() if "  help: " in line]
    assert helps
    assert [refusal(line) for line in helps] == [""] * len(helps), helps
    assert job["started_at"] is None
    assert environments(terminal) == []


def environments_folder(terminal: Terminal) -> str:
    return os.path.join(os.path.dirname(terminal.places.tasks), "environments")


def test_no_matching_wheel(terminal: Terminal, packages: Packages) -> None:
    packages.wheel("narrow", "1.0", tag="cp27-cp27m-win32")
    done = terminal.gpulayer("run", "-r", "narrow", "--", "true")
    failed(terminal, done, "environment-failed", "narrow")
    packages.wheel("narrow", "1.0")
    assert terminal.gpulayer("run", "-r", "narrow", "--", "true").returncode == 0


def test_no_network(terminal: Terminal) -> None:
    settings = terminal.environ.pop("UV_CONFIG_FILE")
    terminal.environ["UV_DEFAULT_INDEX"] = NOBODY
    done = terminal.gpulayer("run", "-r", "gamma", "--", "true")
    failed(terminal, done, "environment-failed", "does not answer", "Connection refused")
    del terminal.environ["UV_DEFAULT_INDEX"]
    terminal.environ["UV_CONFIG_FILE"] = settings
    done = terminal.gpulayer("run", "-r", "gamma", "--", "python", "-c", SHOW)
    assert done.stdout.startswith("1.0 1.0 "), done


@NEEDS_ROOT
def test_no_disk(base: BasePython, packages: Packages, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 3) as disk, Terminal(base, packages) as terminal:
        folder = environments_folder(terminal)
        os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)
        os.symlink(disk.path, folder)
        assert terminal.gpulayer("run", "-r", "alpha", "--", "true").returncode == 0
        terminal.until(lambda: terminal.gpulayer("env", "rm", "--unused").returncode == 0)
        terminal.until(lambda: environments(terminal) == [])
        disk.fill()
        done = terminal.gpulayer("run", "-r", "gamma", "--", "true")
        failed(terminal, done, "disk-full", "the disk is full", "gpulayer env rm --unused")
        disk.empty()
        done = terminal.gpulayer("run", "-r", "gamma", "--", "python", "-c", SHOW)
        assert done.stdout.startswith("1.0 1.0 "), done


def test_a_killed_builder(terminal: Terminal, packages: Packages) -> None:
    build = packages.waiting("struck")
    job = terminal.gpulayer("submit", "-q", "-r", "struck", "--", "true").stdout.strip()
    build.wait()
    os.kill(_installer(terminal), signal.SIGKILL)
    build.until_nobody_is_left()
    done = terminal.gpulayer("wait", job)
    failed(terminal, done, "environment-failed", "its installer was killed")
    build.let_go()
    assert terminal.gpulayer("run", "-r", "struck", "--", "true").returncode == 0


def test_two_builders_at_once(terminal: Terminal, packages: Packages) -> None:
    build = packages.waiting("shared")
    jobs = [
        terminal.gpulayer(
            "submit", "-q", "-c", "0.1", "-r", "shared", "--", "python", "-c", "import shared"
        ).stdout.strip()
        for _ in range(3)
    ]
    build.wait()
    for job in jobs:
        terminal.until(lambda job=job: terminal.job(job)["phase"] == "environment")
    build.let_go()
    os.kill(_installer(terminal), signal.SIGKILL)
    build.until_nobody_is_left()
    ends = [terminal.gpulayer("wait", job).returncode for job in jobs]
    assert sorted(ends) == [0, 0, 126], "one was killed; of the others one made it for both"
    told = [terminal.job(job) for job in jobs]
    notes = [job["preparation"]["steps"][0]["note"] for job in told if job["started_at"]]
    assert sorted(notes) == ["built by uv", "reused"]
    assert len(environments(terminal)) == 1


def test_an_environment_that_is_removed_while_in_use(terminal: Terminal) -> None:
    """By hand: `env rm` does not. The job keeps what it has loaded; the next one has its own."""
    text = "import gamma, os, sys; print(sys.prefix, flush=True); sys.stdin.read()"
    job = terminal.gpulayer("submit", "-q", "-r", "gamma", "--", "sh", "-c",
                            f"python -c '{text}'; sleep 1000").stdout.strip()  # fmt: skip
    terminal.until(lambda: terminal.gpulayer("logs", job).stdout)
    folder = terminal.gpulayer("logs", job).stdout.strip()
    shutil.rmtree(folder)
    done = terminal.gpulayer("run", "-r", "gamma", "--", "python", "-c", SHOW)
    assert done.stdout.split() == ["1.0", "1.0", folder]
    assert terminal.job()["preparation"]["steps"][0]["note"] == "built by uv"
    assert terminal.job(job)["state"] == "running"
    [env] = environments(terminal)
    assert job in env["used_by"]
    terminal.gpulayer("cancel", job)


def _installer(terminal: Terminal) -> int:
    """The one uv that builds for this home."""
    folder = environments_folder(terminal)
    marks = (os.fsencode(f"{MARK}={folder}/{name}") for name in os.listdir(folder))
    found = {pid for mark in marks for pid in processes.marked(mark)}
    [uv] = [pid for pid in found if os.path.basename(_program(pid)) == b"uv"]
    return uv


def _program(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
