"""Into jobs that run in a container: commands, terminals, ports, and who dies on the way."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulayer.sdk.waiting import look_again
from tests.support.engines import ENGINES, Docker, Engine, Podman, free_port
from tests.support.inside import GPULAYER, Here
from tests.support.local_home import SECONDS, slay
from tests.support.person import Person
from tests.support.supervisor import alive, mark

pytestmark = pytest.mark.e2e

MARK = mark("93.75")
MARKED = f"sleep {MARK[:3]}''{MARK[3:]}"
SLEEP = ("sh", "-c", f"exec {MARKED}")
"""What carries the mark, while the line that asks for it does not."""
ALL_BYTES = bytes(range(256)) * 4


@pytest.fixture(scope="module", params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Iterator[Podman | Docker]:
    engine = ENGINES[request.param](Path(tempfile.mkdtemp(prefix="gpl-engine-")))
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="module")
def place(engine: Engine) -> Iterator[Here]:
    with Here(**engine.environ) as place:
        yield place


@pytest.fixture(scope="module")
def job(place: Here, engine: Engine) -> str:
    return running(place, engine, "touch here; exec sleep 1000")


def running(place: Here, engine: Engine, script: str) -> str:
    return place.running(script, image=engine.pinned)


def inside(place: Here, job: str, *words: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    return place.line("exec", job, "--", *words, **how)


def person(place: Here, *words: str, **size: int) -> Person:
    return Person([*GPULAYER, *words], place.home.environ, place.home.work, **size)


def test_it_is_in_the_container_and_in_the_jobs_world(place: Here, job: str) -> None:
    script = 'cat; ls here /etc/plain; echo "$GPULAYER_JOB_ID:$(id -u)"; echo no >&2; exit 7'
    done = inside(place, job, "sh", "-c", script, input=b"a\0b\n")
    assert done.stdout == f"a\0b\n/etc/plain\nhere\n{job}:{os.geteuid()}\n".encode()
    assert (done.stderr, done.returncode) == (b"no\n", 7)
    assert not os.path.exists("/etc/plain")  # that is the image's


def test_every_byte_goes_in_and_comes_out(place: Here, job: str) -> None:
    assert inside(place, job, "cat", input=ALL_BYTES * 1_000).stdout == ALL_BYTES * 1_000
    assert inside(place, job, "wc", "-c", input=b"").stdout.strip() == b"0"


def test_what_is_not_in_the_image_is_told_by_the_engine(place: Here, job: str) -> None:
    done = inside(place, job, "nosuch")
    assert done.returncode in (126, 127)  # Docker has one code for both
    assert b'"nosuch": executable file not found' in done.stdout + done.stderr


def test_ctrl_c_is_the_commands_affair(place: Here, job: str) -> None:
    script = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    with place.begun("exec", job, "--", "sh", "-c", script, stdout=subprocess.PIPE) as begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == b"ready\n"
        begun.send_signal(signal.SIGINT)
        assert begun.stdout.readline() == b"caught\n"
        assert begun.wait(SECONDS) == 3


def test_a_terminal_is_the_containers_own_and_follows_this_one(place: Here, job: str) -> None:
    script = (  # an engine gives its terminal the size a moment after the command has begun
        "trap 'echo caught; exit 5' INT; echo $TERM;"
        ' until [ "$(stty size)" = "31 101" ]; do sleep 0.05; done; echo first;'
        ' until [ "$(stty size)" = "41 90" ]; do sleep 0.05; done; echo second;'
        " while :; do sleep 0.05; done"
    )
    with person(place, "exec", "-t", job, "--", "sh", "-c", script, rows=31, cols=101) as ada:
        before = ada.modes()
        ada.sees("xterm")
        ada.sees("first")
        ada.until_raw_signals_are_off()
        ada.resizes(41, 90)
        os.kill(ada.pid, signal.SIGWINCH)
        ada.sees("second")
        ada.types("\x03")
        ada.sees("caught")
        assert ada.ends() == 5
        assert ada.modes() == before


def test_a_shell_takes_lines(place: Here, job: str) -> None:
    done = place.line("shell", job, input=b"echo $((6*7)) $GPULAYER_JOB_ID\nexit 9\n")
    assert (done.stdout, done.returncode) == (f"42 {job}\n".encode(), 9)


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_port_of_the_container_is_reached(place: Here, engine: Engine) -> None:
    """It has the machine's network."""
    port = free_port()
    job = running(place, engine, f"echo $$ > pid; exec httpd -f -p 127.0.0.1:{port} -h .")
    place.home.until(lambda: _is_open(port))
    with place.begun("forward", job, f"{port}:0", stdout=subprocess.PIPE) as forward:
        assert forward.stdout is not None
        address = forward.stdout.readline().decode().strip()
        (place.home.work / "page").write_text("from inside")
        found = subprocess.run(
            ["curl", "-s", f"http://{address}/page"], capture_output=True, check=True, timeout=60
        )
        assert found.stdout == b"from inside"
        forward.send_signal(signal.SIGINT)
    place.cancel(job)


# --- deaths -------------------------------------------------------------------------------------


def test_the_end_of_the_job_ends_it_and_nothing_outlives_it(place: Here, engine: Engine) -> None:
    job = running(place, engine, "exec sleep 1000")
    stubborn = "trap '' TERM HUP INT; echo up"
    script = f"{stubborn}; (setsid {MARKED} &); while :; do sleep 1; done"
    with place.begun(
        "exec", job, "--", "sh", "-c", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as begun:
        assert begun.stdout is not None
        assert begun.stderr is not None
        assert begun.stdout.readline() == b"up\n"
        place.cancel(job)
        assert begun.wait(SECONDS) == -signal.SIGKILL
        assert begun.stderr.read() == f"{job} has ended, and this with it\n".encode()
    assert alive(MARK) == []


def test_what_a_command_left_running_is_the_jobs_and_ends_with_it(
    place: Here, engine: Engine
) -> None:
    job = running(place, engine, "exec sleep 1000")
    script = f"(setsid {MARKED} >/dev/null 2>&1 </dev/null &) ; exit 4"
    assert inside(place, job, "sh", "-c", script).returncode == 4
    assert len(alive(MARK)) == 1
    place.cancel(job)
    assert alive(MARK) == []


@pytest.mark.parametrize("how", ["with a terminal", "without"])
def test_a_killed_visitor_leaves_nothing_in_the_container(place: Here, job: str, how: str) -> None:
    script = f"trap '' HUP; {MARKED} & wait; wait"  # it does not mind to be hung up
    if how == "without":
        with place.begun("exec", job, "--", "sh", "-c", script) as begun:
            until(lambda: len(alive(MARK)) == 1)
            slay(begun.pid)
    else:
        with person(place, "exec", "-t", job, "--", "sh", "-c", script) as ada:
            ada.until_raw_signals_are_off()
            until(lambda: len(alive(MARK)) == 1)
            os.kill(ada.pid, signal.SIGKILL)
            assert ada.ends() == -signal.SIGKILL
    until(lambda: alive(MARK) == [])
    assert place.wire().call("GET", f"/v1/jobs/{job}")["state"] == "running"


def test_a_killed_client_of_the_engine_takes_its_command_along(
    place: Here, job: str, engine: Engine
) -> None:
    with place.begun("exec", job, "--", *SLEEP, stderr=subprocess.PIPE) as begun:
        until(lambda: len(alive(MARK)) == 1)
        [client] = [
            pid for pid in alive("GPULAYER_VISIT=") if words(pid)[:2] == [engine.kind, "exec"]
        ]
        slay(client)
        assert begun.wait(SECONDS) == 125
    until(lambda: alive(MARK) == [])


@pytest.mark.parametrize("kind", ["agent", "supervisor"])
def test_whoever_dies_in_between_nothing_is_left(engine: Engine, kind: str) -> None:
    before = engine.containers()
    with Here(**engine.environ) as place:
        job = running(place, engine, "exec sleep 1000")
        with place.begun("exec", job, "--", *SLEEP, stderr=subprocess.PIPE) as begun:
            until(lambda: len(alive(MARK)) == 1)
            slay(place.pid(kind))
            assert begun.wait(SECONDS) == 125
        until(lambda: alive(MARK) == [])
        place.line("cancel", "--now", job)
        place.line("wait", job)
    assert engine.containers() == before


def words(pid: int) -> list[str]:
    found = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return [os.path.basename(found[0]), *found[1:]]


def until(there: Any) -> None:
    for _ in range(int(SECONDS / 0.01)):
        if there():
            return
        look_again()
    raise AssertionError("it never came")
