"""A terminal, and a program, whose folder was deleted: told by its name wherever the job was to
go, and never an error of ours."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.local_home import SECONDS, LocalHome

pytestmark = pytest.mark.e2e

PROGRAM = """
import os
import gpulayer as gl
import module
os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
for start in (
    lambda: module.square.remote(3),
    lambda: list(module.square.map([3])),
    lambda: gl.submit(["true"]),
    lambda: gl.submit(["true"], on="any"),
    lambda: gl.submit(["true"], inputs=["x"]),
    lambda: gl.submit(["true"], secrets=["A=@key"]),
    lambda: gl.launch("train.py"),
    lambda: gl.plan(["true"]),
):
    try:
        start()
    except gl.GPULayerError as error:
        print(error.code)
"""


@pytest.fixture
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        yield home


def test_a_program_is_told_whatever_it_starts(home: LocalHome) -> None:
    text = "import gpulayer as gl\n@gl.remote\ndef square(x):\n    return x * x\n"
    (home.work / "module.py").write_text(text)
    done = home.typed(sys.executable, "-c", PROGRAM)
    assert done.stdout.split() == [b"folder-gone"] * 8, done


@pytest.mark.parametrize(
    "line",
    [
        "run --on any -- true",
        "submit --on any -- true",
        "plan --on any -- true",
        "run --input x -- true",
        "run --secret A=@key -- true",
        "launch train.py",
    ],
)
def test_a_terminal_is_told_and_the_way_back_works(home: LocalHome, line: str) -> None:
    ours = f"{shlex.quote(sys.executable)} -m gpulayer {line}"
    script = f"mkdir gone; cd gone; rmdir ../gone; PWD={home.work}/gone {ours}"
    done = subprocess.run(
        ["sh", "-c", script], env=home.environ, cwd=home.work, capture_output=True, timeout=SECONDS
    )
    told = done.stderr.decode()
    assert f"error[folder-gone]: the folder is gone: {home.work}/gone" in told
    assert f"help: mkdir -p {home.work}/gone && cd {home.work}/gone" in told
    assert done.returncode == (126 if line.startswith(("run", "launch")) else 1)
