"""Functions, training scripts and workers elsewhere, in an image that has a Python."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import Engine, Podman, python_tar
from tests.support.local_home import SECONDS, LocalHome
from tests.support.served import Served

pytestmark = pytest.mark.e2e

IMAGE = "localhost/snake:1"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Podman(Path(tempfile.mkdtemp(prefix="gpl-engine-")))
    try:
        engine.loaded(python_tar(), IMAGE)
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="module")
def pinned(engine: Engine) -> str:
    told = engine("image", "inspect", "--format", "{{.Digest}}", IMAGE).stdout.strip()
    return f"{IMAGE}@{told}"


@pytest.fixture
def terminal(engine: Engine) -> Iterator[LocalHome]:
    with LocalHome(**engine.environ) as home:
        yield home


def typed(home: LocalHome, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env=home.environ, cwd=home.work, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


def gpulayer(home: LocalHome, *words: str) -> subprocess.CompletedProcess[str]:
    return typed(home, sys.executable, "-m", "gpulayer", *words)


def test_a_function_runs_on_the_images_python(terminal: LocalHome, pinned: str) -> None:
    (terminal.work / "prog.py").write_text(
        "import sys\n"
        "import gpulayer as gl\n"
        f"@gl.remote(image={pinned!r})\n"
        "def where(x: int) -> list:\n"
        "    return [x * x, sys.executable]\n"
        "if __name__ == '__main__':\n"
        "    print(where.remote(7))\n"
    )
    done = typed(terminal, sys.executable, "prog.py")
    assert done.stdout == "[49, '/usr/bin/python3']\n", done


def test_a_function_in_an_image_without_python_says_so(terminal: LocalHome, engine: Engine) -> None:
    (terminal.work / "m.py").write_text("def f():\n    return 1\n")
    submitted = gpulayer(terminal, "submit", "-q", "--image", engine.pinned, "m:f")
    done = gpulayer(terminal, "wait", submitted.stdout.strip())
    assert done.returncode == 127, (submitted, done)
    assert "python3 is not in the image" in gpulayer(terminal, "status").stdout


@pytest.mark.parametrize("nodes", [1, 2])
def test_nodes_of_a_gang_meet_from_inside_their_images(
    terminal: LocalHome, pinned: str, nodes: int
) -> None:
    script = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"
    (terminal.work / "train.py").write_text(script)
    done = gpulayer(
        terminal, "launch", "--image", pinned, "--cpus", "0.5", "--nodes", str(nodes),
        "--procs-per-node", "2", "train.py",
    )  # fmt: skip
    assert done.returncode == 0, done
    ranks = 2 * nodes
    said = sorted(line.rpartition("] ")[2] for line in done.stdout.splitlines())
    assert said == [f"rank {rank} of {ranks}" for rank in range(ranks)], done


def test_a_rank_that_fails_ends_all_of_them(terminal: LocalHome, pinned: str) -> None:
    script = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(23)\ntime.sleep(1000)\n"
    (terminal.work / "train.py").write_text(script)
    words = ["launch", "--image", pinned, "--cpus", "0.5", "--procs-per-node", "2", "train.py"]
    assert gpulayer(terminal, *words).returncode == 23


def test_a_worker_elsewhere_runs_it_in_a_copy_of_the_folder(
    terminal: LocalHome, pinned: str, engine: Engine
) -> None:
    with Served("--no-worker") as served:
        link = served.link(served.invite())
        joined = gpulayer(terminal, "join", link, "--name", "lab")
        assert joined.returncode == 0, joined
        job = submitted(served, pinned, ["sh", "-c", "pwd; echo 1 > $GPULAYER_OUTPUT_DIR/a; id -u"])
        assert (job["state"], job["worker"]) == ("succeeded", "lab"), job
        assert [output["path"] for output in job["outputs"]] == ["a"]
        never = submitted(served, pinned, ["true"], labels={"pool": "none"})
        assert "label" in never["message"]


def submitted(
    served: Served, image: str, command: list[str], labels: dict[str, str] | None = None
) -> dict[str, Any]:
    spec = {
        "workload": {"kind": "command", "command": command},
        "placement": {
            "target": "remote",
            "worker_labels": labels or {},
            "on_unschedulable": "fail",
        },
        "image": image,
    }
    job = served.admin.call("POST", "/v1/jobs", {"spec": spec})["id"]
    path = f"/v1/jobs/{job}?wait=60&until=finished"
    ended: dict[str, Any] = served.admin.call("GET", path, park=SECONDS)
    return ended
