"""Functions whose ends are larger or other than an end can be: a typed error, and work goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.local_home import SECONDS, LocalHome

pytestmark = pytest.mark.e2e

MODULE = r"""
import os

def million(): return "x" * (1 << 20)
def huge(): return "x" * (1 << 27)
def nan(): return float("nan")
def cyclic():
    a = []
    a.append(a)
    return a
def shared(): return [[0] * 1_000_000] * 9
def message(): raise ValueError("y" * 80_000_000)
def args(): raise ValueError(["y" * 80_000_000])
def chain():
    error = None
    for n in range(5000):
        try:
            raise ValueError("z" * 20_000) from error
        except ValueError as raised:
            error = raised
    raise error
def escapes(): raise ValueError("\x1b[31mred\x07\u202e")
def unprintable():
    class E(Exception):
        def __str__(self): raise RuntimeError
    raise E

def forge(text, code):
    folder = os.path.dirname(os.environ["GPULAYER_OUTPUT_DIR"])
    place(os.path.join(folder, "result.json"), text)
    os._exit(code)

def place(path, text):
    if os.path.lexists(path):
        os.unlink(path)
    if text == "pipe":
        os.mkfifo(path)
    elif text == "link":
        os.symlink("/dev/zero", path)
    elif text == "long":
        with open(path, "w") as file:
            file.write('{"error": {"slug": "x", "message": "')
            for _ in range(90):
                file.write("m" * (1 << 20))
            file.write('"}}')
    else:
        with open(path, "w") as file:
            file.write(text)
"""


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        (home.work / "bad.py").write_text(MODULE)
        home.run("true", check=0)
        yield home


def cli(home: LocalHome, *words: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "gpulayer", *words],
        env=home.environ,
        cwd=home.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("shared", "too-large"),
        ("nan", "result-not-json"),
        ("cyclic", "result-not-json"),
        ("message", "job-failed"),
        ("args", "job-failed"),
        ("chain", "job-failed"),
        ("escapes", "job-failed"),
        ("unprintable", "job-failed"),
    ],
)
def test_an_end_that_is_too_much(home: LocalHome, name: str, slug: str) -> None:
    assert cli(home, "submit", f"bad:{name}").returncode == 0
    ended = cli(home, "wait", "last")
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"error[%b]: " % slug.encode())
    assert len(ended.stderr) < 40_000
    assert b"\x1b" not in ended.stderr
    assert home.run("echo", "well", check=0).stdout == b"well\n"


@pytest.mark.parametrize("name", ["million", "huge"])
def test_a_long_result_is_a_file_and_the_plane_holds_its_name(home: LocalHome, name: str) -> None:
    assert cli(home, "submit", f"bad:{name}").returncode == 0
    assert cli(home, "wait", "last").returncode == 0
    assert cli(home, "result", "-q", "last").stdout == (
        b'{"$gpulayer": 1, "file": "result-0.json"}\n'
    )


FORGED = [
    "pipe",
    "link",
    "long",
    "[]",
    "{}",
    "[" * 100_000,
    '{"error": 5}',
    '{"error": {}}',
    '{"error": {"slug": 5, "message": []}}',
    '{"value": NaN}',
    "\xff",
]


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("text", FORGED, ids=lambda text: text[:24])
def test_a_result_that_the_job_forged(home: LocalHome, text: str, code: int) -> None:
    file = home.work / "forge.py"
    file.write_text("import bad\ndef run(*how): bad.forge(*how)\n")
    sent = cli(home, "submit", "forge:run", "--args", json.dumps([text, code]))
    assert sent.returncode == 0, sent.stderr
    assert cli(home, "wait", "last").returncode == code
    assert b"NaN" not in cli(home, "result", "last").stdout
    assert home.run("echo", "well", check=0).stdout == b"well\n"
    home.until(lambda: home.processes() == ["agent", "plane", "supervisor"])
