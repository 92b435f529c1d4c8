"""Two machines with a network between them: the README's section on the second machine, tried.

Each test begins where `serve` and `join` have just been pasted. `first` serves, `second` works.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.sdk.joined import KINDS
from gpulayer.sdk.processes import running
from tests.support.hosts import Host, network
from tests.support.local_home import SECONDS, slay
from tests.support.supervisor import alive, mark

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SECRET = "correct-horse-battery"
MARK = mark("67.25")
CUT_SECONDS = float(os.environ.get("GPULAYER_TEST_CUT_SECONDS", "60"))
"""Twice the lease."""
TORCH = os.environ.get("GPULAYER_TEST_TORCH")
"""A Python with torch; `.ci/run` makes one."""
PYTHON = ("--python", TORCH) if TORCH else ()


class TwoMachines:
    """Leaving the network ends what runs on either; `end` does it as a person would."""

    def __init__(self, first: Host, second: Host, third: Host) -> None:
        self.first, self.second, self.third = first, second, third
        self._serving = self.serve()
        second.home.environ["LAB_TOKEN"] = SECRET
        second.gpulayer("join", self._line(), "--name", "lab", "--secret", "LAB_TOKEN", *PYTHON)

    def serve(self) -> subprocess.Popen[bytes]:
        self._serving = self.first.begin(
            "serve", "--listen", self.first.address, stderr=subprocess.STDOUT
        )
        return self._serving

    def slay_plane(self) -> None:
        self._serving.kill()
        self._serving.communicate(timeout=SECONDS)

    def run(self, *words: str, check: int | None = 0, **how: Any) -> Any:
        return self.first.gpulayer("run", "--on", "lab", *words, check=check, **how)

    def submit(self, *words: str) -> str:
        said = self.first.gpulayer("submit", "-q", "--on", "lab", *words).stdout
        return str(said.decode().strip())

    def job(self, selector: str = "last") -> dict[str, Any]:
        return dict(json.loads(self.first.gpulayer("status", selector, "--json").stdout)["job"])

    def log(self, job: str) -> bytes:
        return bytes(self.first.gpulayer("logs", job).stdout)

    def until(self, job: str, state: str) -> None:
        self.first.home.until(lambda: self.job(job)["state"] == state)

    def until_logged(self, job: str, text: bytes) -> None:
        self.first.home.until(lambda: text in self.log(job))

    def end(self) -> None:
        self.second.gpulayer("leave")
        self._serving.send_signal(signal.SIGTERM)
        self._serving.communicate(timeout=SECONDS)
        self.first.home.until(lambda: not self.first.home.strays())
        self.second.home.until(lambda: not self.second.home.strays())

    def _line(self) -> str:
        assert self._serving.stdout is not None
        for line in self._serving.stdout:
            if found := re.search(r"gpulayer join (gl://\S+)", line.decode()):
                return found[1]
        raise AssertionError("serve ended without a word")


@pytest.fixture(scope="module")
def machines() -> Iterator[TwoMachines]:
    with network(3) as (first, second, third):
        two = TwoMachines(first, second, third)
        yield two
        two.end()


def test_a_command_takes_its_folder_an_input_and_a_secret_and_brings_its_outputs(
    machines: TwoMachines,
) -> None:
    project = machines.first.home.work / "project"
    project.mkdir()
    (project / "numbers_of.py").write_text("VALUE = 41\n")
    (project / "main.py").write_text(
        "import os, pathlib, sys, numbers_of as n\n"
        "given = pathlib.Path(os.environ['GPULAYER_INPUT_DIR'], 'in.txt').read_text()\n"
        "print(given, n.VALUE, os.environ['LAB_TOKEN'])\n"
        "print('to the other stream', file=sys.stderr)\n"
        "pathlib.Path('out').mkdir()\n"
        "pathlib.Path('out/model.txt').write_text(given * 2)\n"
        "pathlib.Path('forgotten.txt').write_text('x')\n"
        "sys.exit(7)\n"
    )
    (machines.first.home.work / "given.txt").write_text("given")
    done = machines.run(
        "--secret", "LAB_TOKEN", "--input", "../given.txt:in.txt", "--output", "out/*",
        "--get=back", "--", "python", "main.py",
        check=7, cwd=project,
    )  # fmt: skip
    assert done.stdout.startswith(b"given 41 [redacted")
    assert SECRET.encode() not in done.stdout
    assert b"to the other stream\n" in done.stderr
    assert (project / "back" / "out" / "model.txt").read_text() == "givengiven"
    job = machines.job()
    assert (job["state"], job["exit_code"]) == ("failed", 7)
    assert "forgotten.txt" in job["left"]["paths"]


def test_a_function_is_called_there(machines: TwoMachines) -> None:
    (machines.first.home.work / "square.py").write_text(
        "import socket\n"
        "import gpulayer as gl\n\n"
        "@gl.remote(on='lab')\n"
        "def square(x: int) -> int:\n"
        "    return x * x\n\n"
        "if __name__ == '__main__':\n"
        "    print(list(square.map(range(4))), square.remote(7))\n"
    )
    done = subprocess.run(
        machines.first.inside(sys.executable, "square.py"),
        cwd=machines.first.home.work,
        env=machines.first.home.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, b"[0, 1, 4, 9] 49\n"), done
    assert machines.job()["worker"] == "lab"


def test_a_cancel_ends_all_of_a_job_there(machines: TwoMachines) -> None:
    script = f"echo begun; setsid sleep {MARK} & exec sleep {MARK}"
    job = machines.submit("--", "sh", "-c", script)
    machines.until_logged(job, b"begun")
    machines.first.gpulayer("cancel", job)
    machines.until(job, "cancelled")
    assert not alive(MARK)


def test_interrupted_by_ctrl_c_a_far_run_ends_as_its_job_does(machines: TwoMachines) -> None:
    running = machines.first.begin(
        "run", "--on", "lab", "--", "sh", "-c", "echo begun; exec sleep 1000", bufsize=0
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"begun\n"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=SECONDS)
    assert running.returncode == -signal.SIGINT


def test_a_link_that_is_cut_for_a_minute_costs_no_line_of_a_log(machines: TwoMachines) -> None:
    job = machines.submit("--", "sh", "-c", _COUNTING.replace("END", str(int(CUT_SECONDS) + 8)))
    machines.until_logged(job, b"line 1\n")
    machines.second.cable.cut_for(CUT_SECONDS)
    machines.until(job, "succeeded")
    assert machines.log(job) == _counted(int(CUT_SECONDS) + 8)
    assert machines.job(job)["attempt"] == 1


def test_plane_and_agent_are_killed_and_no_byte_of_a_log_is_lost(machines: TwoMachines) -> None:
    job = machines.submit("--", "sh", "-c", _COUNTING.replace("END", "12"))
    machines.until_logged(job, b"line 1\n")
    machines.slay_plane()
    slay(machines.second.home.joined_pid("agent"))
    machines.serve()
    machines.until(job, "succeeded")
    assert machines.log(job) == _counted(12)
    assert machines.job(job)["attempt"] == 1
    worker = machines.second.home
    worker.until(lambda: sorted(dict(running(worker.joined.places))) == sorted(KINDS))


@pytest.mark.skipif(TORCH is None, reason="GPULAYER_TEST_TORCH names no Python with torch")
def test_two_nodes_meet_over_the_network_and_add_up(machines: TwoMachines) -> None:
    (machines.first.home.work / "add.py").write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.tensor([dist.get_rank() + 1.0])\n"
        "dist.all_reduce(total)\n"
        "print('rank', dist.get_rank(), 'of', dist.get_world_size(), 'total', total.item())\n"
        "dist.destroy_process_group()\n"
    )
    invited = machines.first.gpulayer("invite").stdout.decode()
    found = re.search(r"gl://\S+", invited)
    assert found is not None, invited
    machines.third.gpulayer("join", found[0], "--name", "lab-2", *PYTHON)
    done = machines.first.gpulayer(
        "launch", "--on", "remote", "--nodes", "2", "--strategy", "spread", "add.py",
        timeout=200,
    )  # fmt: skip
    said = sorted(line.partition("rank")[2] for line in done.stdout.decode().splitlines())
    assert said == [" 0 of 2 total 3.0", " 1 of 2 total 3.0"], done
    machines.third.gpulayer("leave")


_COUNTING = "i=0; while [ $i -lt END ]; do i=$((i+1)); echo line $i; sleep 1; done"


def _counted(last: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(1, last + 1))
