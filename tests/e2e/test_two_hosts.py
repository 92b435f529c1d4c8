"""A second machine over a real network: TLS between two hosts, and a cable that is cut."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.support.hosts import Host, network
from tests.support.local_home import SECONDS, slay

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None,
        reason="network namespaces need root and iproute2",
    ),
]

CUT_LINES = 60
"""Lines, a tenth of a second each, that the job writes while its cable is cut."""


class Pair:
    """A server, and a machine that works for it and on it."""

    def __init__(self, server: Host, desk: Host) -> None:
        self.server, self.desk = server, desk
        self.port = 8765
        self.lines: list[str] = []

    def serve(self) -> None:
        self.process = self.server.begin(
            "serve",
            "--listen",
            f"{self.server.address}:{self.port}",
            "--name",
            "lab",
            "--no-worker",
        )
        assert self.process.stdout is not None
        self.lines = [self.process.stdout.readline().decode().split()[-1] for _ in range(2)]

    def kill_agent(self) -> None:
        slay(self.desk.home.joined_pid("agent"))

    def kill_server(self) -> None:
        self.server.home.kill("plane")
        self.process.wait(SECONDS)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with network(2) as (server, desk):
        made = Pair(server, desk)
        made.serve()
        try:
            desk.gpulayer("join", made.lines[0], "--name", "far")
            desk.gpulayer("login", made.lines[1])
            yield made
        finally:
            made.process.kill()
            made.process.communicate(timeout=SECONDS)


def test_a_command_and_a_function_run_over_there(pair: Pair) -> None:
    done = pair.desk.gpulayer("run", "--", "sh", "-c", "echo out; echo err >&2; exit 3", check=3)
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    (pair.desk.home.work / "squares.py").write_text("def square(x):\n    return x * x\n")
    job = pair.desk.gpulayer("submit", "-q", "squares:square", "--args", "[7]").stdout.decode()
    pair.desk.gpulayer("wait", "-q", job.strip())
    assert pair.desk.gpulayer("result", job.strip()).stdout.strip() == b"49"


def test_a_cancel_gets_there(pair: Pair) -> None:
    job = pair.desk.gpulayer("submit", "-q", "--", "sleep", "600").stdout.decode().strip()
    pair.desk.gpulayer("cancel", job)
    done = pair.desk.gpulayer("wait", "-q", job, check=None)
    assert done.returncode != 0
    assert b"cancelled" in pair.desk.gpulayer("status", job).stdout


def test_a_cable_that_is_cut_during_a_job_costs_no_byte(pair: Pair) -> None:
    """Nothing is told to either end: packets are lost. The job goes on, and client and worker find
    the server again and go on where they were."""
    mark = pair.desk.home.folder / "written"
    code = (
        "import pathlib, sys, time\n"
        f"for n in range({CUT_LINES} + 40):\n"
        "    print(n, flush=True); time.sleep(0.1)\n"
        f"    if n == {CUT_LINES}: pathlib.Path({str(mark)!r}).touch()\n"
    )
    client = pair.desk.begin("run", "--", "python", "-c", code)
    assert client.stdout is not None
    heard = client.stdout.readline()
    pair.desk.cable.cut()
    try:
        pair.desk.home.until(mark.exists)
    finally:
        pair.desk.cable.mend()
    rest, said = client.communicate(timeout=2 * SECONDS)
    assert client.returncode == 0, said
    assert heard + rest == b"".join(b"%d\n" % n for n in range(CUT_LINES + 40))


def test_a_server_and_an_agent_that_are_killed_cost_no_byte(pair: Pair) -> None:
    gates = [pair.desk.home.folder / f"gate-{n}" for n in range(2)]
    script = (
        f"echo one; while [ ! -e {gates[0]} ]; do sleep 0.05; done; "
        f"echo two; touch {gates[1]}; echo three"
    )
    client = pair.desk.begin("run", "--", "sh", "-c", script)
    assert client.stdout is not None
    assert client.stdout.readline() == b"one\n"
    pair.kill_server()
    pair.kill_agent()
    gates[0].touch()
    pair.desk.home.until(gates[1].exists)
    pair.serve()
    rest, said = client.communicate(timeout=2 * SECONDS)
    assert client.returncode == 0, said
    assert rest == b"two\nthree\n"
