"""Daemons: started from a terminal, and nothing of the terminal's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpulayer.runtime import daemon

TELL = """
import json, os, resource, signal, sys

def main():
    report = os.fdopen(3, "w")
    json.dump({
        "argv": sys.argv[1:],
        "cwd": os.getcwd(),
        "umask": os.umask(0),
        "session": os.getsid(0), "pid": os.getpid(), "parent": os.getppid(),
        "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1],
        "ignored": [s for s in (1, 2, 3, 15) if signal.getsignal(s) == signal.SIG_IGN],
        "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
        "environ": dict(os.environ),
        "isolated": sys.flags.isolated,
    }, report)
    print("a last word", file=sys.stderr)
"""

START = """
import os, sys
from gpulayer.runtime import daemon
daemon.launch("told", ["home", "x"], log=sys.argv[1], fds=[int(sys.argv[2])])
print(os.getpid())
"""


@pytest.fixture
def told(tmp_path: Path) -> dict[str, Any]:
    """What a daemon saw of itself, started by an awkward terminal."""
    package = tmp_path / "gpulayer" / "runtime"
    package.mkdir(parents=True)
    (tmp_path / "told.py").write_text(TELL)
    (tmp_path / "gpulayer" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "daemon.py").write_bytes(Path(daemon.__file__).read_bytes())
    read, write = os.pipe()
    awkward = "trap '' INT QUIT HUP; umask 0; ulimit -Sn 99; exec 7</dev/null; exec \"$@\""
    command = [sys.executable, "-c", START, str(tmp_path / "log"), str(write)]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "LD_PRELOAD": "", "SECRET": "x"}
    subprocess.run(
        ["/bin/sh", "-c", awkward, "sh", *command],
        env={**environ, "LC_ALL": "C.UTF-8", "GPULAYER_TOKEN": "t"},
        pass_fds=[write],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as pipe:
        seen: dict[str, Any] = json.load(pipe)
    seen["log"] = (tmp_path / "log").read_text()
    return seen


def test_a_daemon_takes_nothing_of_its_starters(told: dict[str, Any]) -> None:
    assert told["argv"] == ["home", "x"]
    assert told["cwd"] == "/"
    assert told["umask"] == 0o077
    assert told["fds"] == [0, 1, 2, 3]
    assert told["ignored"] == told["blocked"] == []
    assert told["nofile"][0] == told["nofile"][1]
    assert told["isolated"] == 1


def test_a_daemon_is_in_a_session_that_it_does_not_lead(told: dict[str, Any]) -> None:
    assert told["session"] not in (os.getsid(0), told["pid"])
    assert told["parent"] != os.getpid()


def test_a_daemon_gets_a_short_list_of_variables(told: dict[str, Any]) -> None:
    assert told["environ"]["LC_ALL"] == "C.UTF-8"
    assert {"SECRET", "LD_PRELOAD", "PYTHONPATH", "GPULAYER_TOKEN"}.isdisjoint(told["environ"])


def test_last_words_go_to_its_log(told: dict[str, Any]) -> None:
    assert told["log"] == "a last word\n"


def test_an_overgrown_log_is_set_aside(tmp_path: Path) -> None:
    log = tmp_path / "plane.log"
    log.write_bytes(b"x" * (daemon.LOG_LIMIT_BYTES + 1))
    read, write = os.pipe()
    daemon.launch("gpulayer.runtime.daemon_that_is_not", [], log=str(log), fds=[write])
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)
    assert "ModuleNotFoundError" in log.read_text()
    assert (tmp_path / "plane.log.1").stat().st_size > daemon.LOG_LIMIT_BYTES


def test_a_folder_that_is_gone_is_not_brought_back(tmp_path: Path) -> None:
    read, write = os.pipe()
    daemon.launch("no_such_module", [], log=str(tmp_path / "gone" / "log"), fds=[write])
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)
    assert not (tmp_path / "gone").exists()
