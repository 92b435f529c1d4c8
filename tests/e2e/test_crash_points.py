"""What dies, what happens: kill -9 at each named instant, and what the clients see.

Each case runs an attached job of 3,000 lines that exits with 7, and then the next command.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gpulayer
from gpulayer.api.wire import Wire
from gpulayer.clock import SystemIds
from gpulayer.errors import UnreachableError
from gpulayer.sdk import local, world
from tests.support.local_home import SECONDS, LocalHome, watched

pytestmark = pytest.mark.e2e

ONE_OF_EACH = ["agent", "plane", "supervisor"]
LINES = b"".join(b"line %d of the job\n" % n for n in range(3000))
JOB = [
    sys.executable,
    "-c",
    "import sys\nfor n in range(3000): print('line', n, 'of the job')\nsys.exit(7)",
]


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def armed(home: LocalHome, point: str) -> dict[str, str]:
    """The environment in which the first process to come to `point` dies there."""
    token = home.folder / "armed"
    token.touch()
    return {**home.environ, "GPULAYER_CRASH_AT": f"{point}={token}"}


def has_fired(home: LocalHome) -> bool:
    return not (home.folder / "armed").exists()


def all_is_well(home: LocalHome, jobs: int) -> None:
    """The next command is right, nothing was done twice, one of each process is left."""
    done = home.run("echo", "next", check=0)
    assert done.stdout == b"next\n"
    assert len(home.jobs()) == jobs + 1
    home.until(lambda: home.processes() == ONE_OF_EACH)
    assert home.stop()
    assert home.strays() == []


PLANE = [
    "plane-locked",
    "plane-bound",
    "plane-opened",
    *(
        f"plane-{when}-{verb}"
        for verb in ("register", "acquire", "jobs", "report", "log")
        for when in ("hears", "answers")
    ),
]
AGENT = [
    f"agent-{when}-{verb}"
    for verb in ("register", "acquire", "report", "log")
    for when in ("says", "heard")
]


@pytest.mark.parametrize("point", [*PLANE, *AGENT])
def test_a_plane_or_agent_that_dies_costs_time_alone(home: LocalHome, point: str) -> None:
    done = home.run(*JOB, env=armed(home, point))
    assert (done.returncode, done.stderr) == (7, b"")
    assert done.stdout == LINES
    home.until(lambda: has_fired(home))
    all_is_well(home, jobs=1)


def test_a_supervisor_that_dies_before_it_forked_is_asked_again(home: LocalHome) -> None:
    done = home.run(*JOB, env=armed(home, "supervisor-intent"))
    assert has_fired(home)
    assert (done.returncode, done.stdout) == (7, LINES)
    all_is_well(home, jobs=1)


@pytest.mark.parametrize("point", ["supervisor-forked", "supervisor-started", "supervisor-read"])
def test_a_supervisor_that_dies_with_the_job_shows_a_part_and_says_lost(
    home: LocalHome, point: str
) -> None:
    done = home.run(*JOB, env=armed(home, point))
    assert has_fired(home)
    assert done.returncode == 125
    assert LINES.startswith(done.stdout)
    assert b"error[worker-lost]" in done.stderr
    all_is_well(home, jobs=1)


def test_a_supervisor_that_dies_loses_the_job_and_says_so(home: LocalHome) -> None:
    client = home.popen(
        "sh", "-c", "echo up; exec sleep 100", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert client.stdout is not None
    assert client.stdout.readline() == b"up\n"
    home.kill("supervisor")
    _, said = client.communicate(timeout=SECONDS)
    assert client.returncode == 125
    assert b"error[worker-lost]" in said
    assert home.log(home.jobs()[0]["id"]) == b"up\n"
    all_is_well(home, jobs=1)


def test_all_four_killed_at_once_leave_a_home_that_works(home: LocalHome) -> None:
    home.run("true", check=0)
    home.kill_all()
    assert os.path.exists(home.places.plane_socket)
    all_is_well(home, jobs=1)


@pytest.mark.parametrize("after", [0.03, 0.06, 0.09, 0.12, 0.3])
def test_a_client_killed_while_it_starts_a_plane_harms_nobody(
    home: LocalHome, after: float
) -> None:
    client = home.popen("true")
    with watched(client.pid) as gone:
        gone(after)
        client.kill()
        client.wait(SECONDS)
    done = home.run("echo", "next", check=0)
    assert done.stdout == b"next\n"
    home.until(lambda: home.processes() == ONE_OF_EACH)


# --- hand-over ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A newer GPUlayer, beside the one that is installed."""
    source = tmp_path_factory.mktemp("newer")
    shutil.copytree(Path(gpulayer.__file__).parent, source / "gpulayer")
    file = source / "gpulayer" / "_version.py"
    file.write_text(file.read_text().replace(gpulayer.__version__, "999.0.0"))
    return str(source)


class Waiting:
    """An attached job that prints, waits for a word, prints the rest and exits with 7."""

    def __init__(self, home: LocalHome, **how: Any) -> None:
        self.go = home.folder / "go"
        os.mkfifo(self.go)
        code = (
            "import sys\n"
            "for n in range(3000):\n"
            "    print('line', n, 'of the job', flush=True)\n"
            f"    if n == 1000: open({str(self.go)!r}).read()\n"
            "sys.exit(7)"
        )
        self.client = home.popen(sys.executable, "-c", code, stdout=subprocess.PIPE, **how)
        home.until_running(1)

    def end(self) -> tuple[bytes, int]:
        self.go.write_text("on\n")
        out, _ = self.client.communicate(timeout=SECONDS)
        return out, self.client.returncode


def version(home: LocalHome) -> str:
    return str(home.wire().call("GET", "/v1/version")["version"])


def version_of_agent(home: LocalHome) -> str:
    (worker,) = home.wire().call("GET", "/v1/workers")["workers"]
    return str(worker["capabilities"]["version"])


def test_a_newer_client_replaces_the_plane_and_no_job_notices(home: LocalHome, newer: str) -> None:
    waiting = Waiting(home)
    old, supervisor = home.pid("plane"), home.pid("supervisor")
    home.run("true", env={**home.environ, "PYTHONPATH": newer}, check=0)
    home.until(lambda: version(home) == "999.0.0")
    with watched(old) as gone:
        assert gone(SECONDS)
    home.until(lambda: version_of_agent(home) == "999.0.0")
    assert home.pid("supervisor") == supervisor
    assert waiting.end() == (LINES, 7)
    home.run("true", check=0)
    assert version(home) == "999.0.0"
    all_is_well(home, jobs=3)


def test_five_newer_clients_at_once_make_one_swap(home: LocalHome, newer: str) -> None:
    home.run("true", check=0)
    environ = {**home.environ, "PYTHONPATH": newer}
    clients = [home.popen("true", env=environ) for _ in range(5)]
    assert [client.wait(SECONDS) for client in clients] == [0] * 5
    home.until(lambda: version(home) == "999.0.0")
    home.until(lambda: home.processes() == ONE_OF_EACH)
    all_is_well(home, jobs=6)


@pytest.mark.parametrize(
    "point",
    ["old-paused", "old-sent", "old-heard-took"],
)
def test_an_old_plane_that_dies_handing_over(home: LocalHome, newer: str, point: str) -> None:
    home.run("true", env=armed(home, point), check=0)
    swaps(home, newer, {**home.environ, "PYTHONPATH": newer})


@pytest.mark.parametrize(
    "point",
    ["new-asked", "new-received", "plane-opened", "new-took"],
)
def test_a_new_plane_that_dies_taking_over(home: LocalHome, newer: str, point: str) -> None:
    home.run("true", check=0)
    swaps(home, newer, {**armed(home, point), "PYTHONPATH": newer})


def swaps(home: LocalHome, newer: str, environ: dict[str, str]) -> None:
    """A swap in which somebody dies: the running job is exact, the next command right."""
    waiting = Waiting(home)
    home.run("true", env=environ, check=0)
    home.until(lambda: has_fired(home))
    home.run("true", check=0)
    assert waiting.end() == (LINES, 7)
    all_is_well(home, jobs=4)


def test_a_new_plane_that_freezes_is_ended_by_the_old(home: LocalHome, newer: str) -> None:
    home.run("true", check=0)
    waiting = Waiting(home)
    old = home.pid("plane")
    read, write = os.pipe()
    code = (
        "import os, signal, sys\n"
        "from gpulayer.sdk.handover import Claim\n"
        "from gpulayer.sdk.places import Places\n"
        "claim = Claim(Places.find(), 'local')\n"
        "claim.receive()\n"
        f"os.write({write}, b'!')\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    environ = {**home.environ, "PYTHONPATH": newer}
    frozen = subprocess.Popen([sys.executable, "-c", code], env=environ, pass_fds=[write])
    os.close(write)
    assert os.read(read, 1) == b"!"
    os.close(read)
    assert frozen.wait(SECONDS) == -signal.SIGKILL
    assert home.pid("plane") == old
    assert waiting.end() == (LINES, 7)
    all_is_well(home, jobs=2)


# --- random kills ---------------------------------------------------------------------------------

KILLS = int(os.environ.get("GPULAYER_TEST_KILLS", "50"))


def test_random_kills_lose_no_accepted_job(home: LocalHome) -> None:
    """Two submitters, each job prints, sleeps, prints; plane and agent die all the time."""
    home.run("true", check=0)
    accepted: dict[str, bytes] = {}
    over = threading.Event()

    def submit(name: str) -> None:
        wire = local.ensure_plane(home.places)
        seen = world.of_program()
        count = 0
        while not over.is_set():
            count += 1
            text = f"{name}-{count}"
            body = {
                "spec": {"workload": {"kind": "command", "command": _talk(text)}},
                "origin": {"cwd": seen.envelope["cwd"]},
                "idempotency_key": SystemIds().token(26),
            }
            with world.given(home.places, seen) as envelope:
                job = insist(wire, "POST", "/v1/jobs", body | {"envelope_id": envelope})
            accepted[job["id"]] = f"{text} one\n{text} two\n".encode()
            insist(wire, "GET", f"/v1/jobs/{job['id']}?wait=1&until=finished")
        seen.close()

    submitters = [threading.Thread(target=submit, args=(name,)) for name in ("ada", "bob")]
    for thread in submitters:
        thread.start()
    try:
        chance = random.Random(20)
        for _ in range(KILLS):
            kind = chance.choice(["plane", "agent"])
            home.until(lambda: home.wire().call("GET", "/v1/version"))
            home.until(lambda kind=kind: kind in home.processes())
            over.wait(chance.random() * 0.4)
            home.kill(kind)
    finally:
        over.set()
        for thread in submitters:
            thread.join(SECONDS)
    assert len(accepted) > KILLS / 10
    home.run("true", check=0)
    for job_id, said in accepted.items():
        path = f"/v1/jobs/{job_id}?wait=30&until=finished"
        job = home.wire().call("GET", path, park=30.0)
        assert (job["state"], home.log(job_id)) == ("succeeded", said), job
    all_is_well(home, jobs=len(accepted) + 2)


def insist(wire: Wire, method: str, path: str, body: Any = None) -> Any:
    """A client gives up after some tries; here planes die faster than that. Same key, same job."""
    while True:
        try:
            return wire.call(method, path, body, park=1.0)
        except UnreachableError:
            continue


def _talk(text: str) -> list[str]:
    return ["sh", "-c", f"echo {text} one; sleep 0.1; echo {text} two"]
