"""A builder's parent: it ends as its command did, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulayer.runtime import builder

STAYS = """
import os, subprocess, sys
alive = int(sys.argv[1])
code = "import signal; signal.pause()"
subprocess.Popen(
    [sys.executable, "-c", code], pass_fds=[alive], start_new_session=True, env={}
)
os.write(1, b"begun\\n")
"""
"""Leaves a process behind in another session, with no variable of ours."""


class Below:
    """A command below a builder. `alive` ends once no process of it is left."""

    def __init__(self, *command: str) -> None:
        self.alive, theirs = os.pipe()
        self.process = subprocess.Popen(
            builder.words([*command, str(theirs)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[theirs],
            start_new_session=True,
        )
        os.close(theirs)

    def is_begun(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"begun\n"

    def nobody_is_left(self) -> bool:
        return os.read(self.alive, 1) == b""

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        os.close(self.alive)


@pytest.fixture
def below(request: pytest.FixtureRequest) -> Iterator[Below]:
    made = Below(*request.param)
    yield made
    made.close()


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


@pytest.mark.parametrize(
    ("below", "code"),
    [
        (python("raise SystemExit(3)"), 3),
        (python("import os; os.kill(os.getpid(), 9)"), 137),
        (["/no/such/program"], builder.NOT_FOUND),
        (python(STAYS), 0),
    ],
    indirect=["below"],
)
def test_it_ends_as_its_command_did_and_leaves_nobody(below: Below, code: int) -> None:
    assert below.process.wait() == code
    assert below.nobody_is_left()


@pytest.mark.parametrize("below", [python(STAYS + "import signal; signal.pause()")], indirect=True)
@pytest.mark.parametrize("how", ["closed", "terminated"])
def test_taken_back_it_ends_everything(below: Below, how: str) -> None:
    below.is_begun()
    if how == "closed":
        assert below.process.stdin is not None
        below.process.stdin.close()
    else:
        below.process.send_signal(signal.SIGTERM)
    assert below.process.wait() == builder.CUT
    assert below.nobody_is_left()


def test_an_agent_that_is_killed_takes_it_along(tmp_path: Path) -> None:
    alive, theirs = os.pipe()
    agent = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, pass_fds=[int(sys.argv[1])],"
        " start_new_session=True)\n"
        "child.wait()\n"
    )
    command = builder.words([*python(STAYS + "import signal; signal.pause()"), str(theirs)])
    with subprocess.Popen(
        [*python(agent), str(theirs), *command], stdout=subprocess.PIPE, pass_fds=[theirs]
    ) as process:
        os.close(theirs)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.kill()
        assert os.read(alive, 1) == b""
    os.close(alive)
