"""Two versions of GPUlayer on one home under load: the newer plane takes over, nobody notices."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from gpulayer import _version
from tests.support.local_home import SECONDS, SOURCE, LocalHome

pytestmark = pytest.mark.e2e

NEWER = "999.0.0"


@pytest.fixture
def newer(tmp_path: Path) -> str:
    """A copy of the source that says that it is of another version."""
    tree = tmp_path / "src"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    file = tree / "gpulayer" / "_version.py"
    file.write_text(file.read_text().replace(_version.__version__, NEWER))
    return str(tree)


def test_a_newer_client_replaces_the_plane_under_load(newer: str) -> None:
    with LocalHome() as home:
        home.run("true", check=0)
        waits = home.popen(
            "sh",
            "-c",
            "echo early; while ! test -e go; do sleep 0.02; done; echo late; exit 7",
            stdout=subprocess.PIPE,
        )
        home.until_running(1)
        first = home.pid("plane")
        wrong: list[subprocess.CompletedProcess[bytes]] = []

        def work(tree: str, name: str) -> None:
            for number in range(8):
                text = f"{name}{number}"
                done = home.run("echo", text, env=home.environ | {"PYTHONPATH": tree})
                if (done.returncode, done.stdout) != (0, f"{text}\n".encode()):
                    wrong.append(done)

        workers = [
            threading.Thread(target=work, args=(tree, name))
            for tree, name in ((SOURCE, "old"), (newer, "new"), (newer, "newer"))
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert wrong == []
        home.until(lambda: home.wire().call("GET", "/v1/version")["version"] == NEWER)
        home.until(lambda: home.pid("plane") != first)  # it may take a moment to leave
        (home.work / "go").touch()
        assert waits.communicate(timeout=SECONDS) == (b"early\nlate\n", None)
        assert waits.returncode == 7
        assert len(home.jobs()) == 2 + 3 * 8
        home.until(lambda: home.processes() == ["agent", "plane", "supervisor"])
        done = home.run("echo", "old again", check=0)
        assert done.stdout == b"old again\n"
        assert home.wire().call("GET", "/v1/version")["version"] == NEWER
        assert home.stop()
        assert home.strays() == []
