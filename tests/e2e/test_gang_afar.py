"""One gang on two machines that joined a server: code travels, nodes meet, who misses is named."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.runtime import segments
from gpulayer.sdk import log_lines
from gpulayer.sdk.packing import pack
from tests.support import torch_stub
from tests.support.local_home import SECONDS, LocalHome
from tests.support.served import Served

pytestmark = pytest.mark.e2e

NAMES = ("lab-a", "lab-b")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--no-worker") as served:
        yield served


@pytest.fixture(scope="module")
def machines(served: Served) -> Iterator[dict[str, LocalHome]]:
    """Homes of their own, whose Python has the launcher."""
    with LocalHome() as one, LocalHome() as other:
        python = torch_stub.install(one.work)
        for name, home in zip(NAMES, (one, other), strict=True):
            line = served.link(served.invite())
            words = [sys.executable, "-m", "gpulayer", "join", line, "--name", name]
            subprocess.run(
                [*words, "--python", python],
                env=home.environ,
                cwd=home.work,
                stdin=subprocess.DEVNULL,
                check=True,
                timeout=SECONDS,
                capture_output=True,
            )
        served.until(lambda: len(online(served)) == 2)
        yield dict(zip(NAMES, (one, other), strict=True))


def online(served: Served) -> list[str]:
    found = served.admin.call("GET", "/v1/workers")["workers"]
    return [worker["name"] for worker in found if worker["state"] != "offline"]


def submit(served: Served, folder: Path, text: str, **work: Any) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(text)
    spec = {
        "name": "far",
        "workload": {"kind": "distributed", "entrypoint": "train.py", "num_workers": 2, **work},
        "placement": {"target": "remote", "strategy": "spread"},
    }
    packed = pack(spec, folder=str(folder))
    packed.send(served.admin)
    return str(served.admin.call("POST", "/v1/jobs", {"spec": packed.spec})["id"])


def ended(served: Served, job: str) -> dict[str, Any]:
    path = f"/v1/jobs/{job}?wait=60&until=finished"
    found: dict[str, Any] = served.admin.call("GET", path, park=SECONDS)
    return found


def lines(served: Served, job: str) -> list[str]:
    """Put together for each rank: what they write comes in pieces, one between the other's."""
    raw = served.admin.request("GET", f"/v1/jobs/{job}/logs").data
    said = (r for r in segments.decode(raw) if r.stream == segments.STDOUT)
    return sorted(log_lines.lines(said))


def test_code_goes_to_both_machines_and_all_ranks_meet(
    served: Served, machines: dict[str, LocalHome], tmp_path: Path
) -> None:
    text = (
        "import os, sys; e = os.environ\n"
        "print(e['RANK'], e['GROUP_RANK'], e['WORLD_SIZE'], e['MASTER_ADDR'], *sys.argv[1:])\n"
    )
    job = submit(served, tmp_path, text, procs_per_worker=2, args=["--lr", "1"])
    told = ended(served, job)
    assert told["state"] == "succeeded", (told, lines(served, job))
    assert lines(served, job) == [f"{r} {r // 2} 4 127.0.0.1 --lr 1" for r in range(4)]
    assert [(node["node"], node["worker"], node["state"]) for node in told["nodes"]] == [
        (0, "lab-a", "succeeded"),
        (1, "lab-b", "succeeded"),
    ]


def test_a_failure_on_one_machine_ends_the_other_and_is_the_error(
    served: Served, machines: dict[str, LocalHome], tmp_path: Path
) -> None:
    text = "import os, signal, sys\nsys.exit(5) if os.environ['RANK'] == '1' else signal.pause()\n"
    told = ended(served, submit(served, tmp_path, text))
    assert (told["state"], told["exit_code"]) == ("failed", 5)
    assert told["message"] == "rank 1: exit code 5"


def test_a_machine_that_does_not_join_in_time_is_named(
    served: Served, machines: dict[str, LocalHome], tmp_path: Path
) -> None:
    """Its agent is frozen, so that it never hears of the job."""
    agent = machines["lab-b"].joined_pid("agent")
    os.kill(agent, signal.SIGSTOP)
    try:
        wait = {"join_timeout_seconds": 2}
        job = submit(served, tmp_path, "print('never')", rendezvous=wait)

        def stopping() -> bool:
            story = served.admin.call("GET", f"/v1/jobs/{job}/events")["events"]
            return any(event["kind"] == "stopping" for event in story)

        served.until(stopping)
    finally:
        os.kill(agent, signal.SIGCONT)
    told = ended(served, job)
    assert (told["state"], told["reason"]) == ("failed", "rendezvous")
    assert re.fullmatch(r"lab-b \(node 1\) did not join within 2 s", told["message"])
    assert told["result"]["error"]["slug"] == "not-joined"
    assert lines(served, job) == []
    assert json.dumps(told["result"])
