"""What a short command loads: nothing that models, colours, serves or stores."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from tests.support.local_home import SECONDS, LocalHome

HEAVY = (
    "pydantic rich httpx2 starlette uvicorn jinja2 sqlite3 asyncio ssl email psutil "
    "_hashlib ipaddress"
).split()
SHOW = (
    "import atexit, sys; sys.argv = ['gpulayer', *sys.argv[1:]]\n"
    "from gpulayer.cli import main\n"
    "try:\n"
    "    main.main()\n"
    "finally:\n"
    "    print('loaded', *(m for m in {heavy} if m in sys.modules), file=sys.stderr)\n"
)


@pytest.fixture(scope="module")
def home():  # type: ignore[no-untyped-def]
    with LocalHome() as home:
        home.run("echo", "there", check=0)
        yield home


@pytest.mark.e2e
@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "help no-gpu",
        "ps -a",
        "status",
        "logs",
        "events",
        "why",
        "wait",
        "cancel last",
        "workers",
        "gpus",
        "run -- true",
        "run --gpus 0 --timeout 1h --env A=b -- sh -c 'exit 0'",
        "submit -- true",
    ],
)
def test_a_short_command_loads_nothing_heavy(home: LocalHome, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW.format(heavy=HEAVY), *shlex.split(words)],
        env=home.environ,
        cwd=home.work,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "loaded"


def test_the_package_alone_loads_next_to_nothing() -> None:
    names = [*HEAVY, "click", "http"]
    show = f"import gpulayer, sys; print(*(m for m in {names} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_plane_loads_what_its_first_answer_needs() -> None:
    """What only some jobs, or only bad ones, ask for comes with the first of them."""
    names = "packaging difflib rich jinja2 httpx2 psutil psycopg zipfile yaml".split()
    show = (
        "import sys, gpulayer.sdk.plane_process, gpulayer.sdk.plane_host, gpulayer.sdk.wiring\n"
        "import gpulayer.sdk.serving, gpulayer.api.server, gpulayer.sdk.handover\n"
        f"print(*(m for m in {names} if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
