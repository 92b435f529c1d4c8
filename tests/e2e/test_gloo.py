"""Distributed jobs with the real torch: processes that meet and add numbers up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.local_home import LocalHome

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SECONDS = 300.0
"""Each process imports torch, which takes long on a busy machine."""
PYTHON = os.environ.get("GPULAYER_TEST_TORCH", "")
"""A Python with torch; `.ci/run` makes one."""
SCRIPT = """
import atexit, os, sys, datetime
import torch
import torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
rank = dist.get_rank()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
print("rank", rank, "of", dist.get_world_size(), "sum", total.item(), flush=True)
if "fail" in sys.argv and rank == 1:
    atexit.register(os._exit, 1)  # torch's own threads may abort what ends while it is connected
    raise ValueError("rank 1 has no data")
dist.barrier()
dist.destroy_process_group()
"""

if not PYTHON:
    pytest.skip("GPULAYER_TEST_TORCH names no Python with torch", allow_module_level=True)


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    folder = os.path.dirname(PYTHON)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    with LocalHome(PATH=path, VIRTUAL_ENV=os.path.dirname(folder)) as home:
        home.environ["VIRTUAL_ENV"] = os.path.dirname(folder)
        (home.work / "train.py").write_text(SCRIPT)
        yield home


def launch(home: LocalHome, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpulayer", "launch", *words],
        cwd=home.work,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


SUMS = [f"rank {r} of 2 sum 3.0" for r in (0, 1)]


@pytest.mark.parametrize("launcher", ["torchrun", "direct"])
def test_all_processes_of_a_node_meet_and_add_up(home: LocalHome, launcher: str) -> None:
    done = launch(home, "--launcher", launcher, "--procs-per-node=2", "train.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == SUMS


@pytest.mark.parametrize("launcher", ["torchrun", "direct"])
def test_two_nodes_add_up_and_the_rank_that_raised_is_the_error_not_the_one_that_lost_its_peer(
    home: LocalHome, launcher: str
) -> None:
    words = ["--launcher", launcher, "--nodes=2", "--cpus=0.5"]  # one core is enough
    done = launch(home, *words, "train.py", "fail")
    job = home.wire().call("GET", "/v1/jobs/last")
    assert (done.returncode, job["message"]) == (1, "rank 1: ValueError: rank 1 has no data")
    assert "in <module>" in job["result"]["error"]["traceback"]
    assert sorted(done.stdout.splitlines()) == SUMS
    assert "ValueError: rank 1 has no data" in done.stderr
