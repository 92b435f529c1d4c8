# ruff: noqa: F401, F811
"""A project, its workspace and packages by path: run here, from a copy, on another machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.test_environments import Terminal, base, packages, terminal
from tests.support.packages import BasePython
from tests.support.served import Served
from tests.unit.worker.test_own_packages import UV, UV_BUILD, project, workspace

pytestmark = pytest.mark.e2e

IMPORTS = "import theirs, lib_a, mine; print(theirs.name, lib_a.name, mine.name, theirs.__file__)"
RUN = ("-r", "uv.lock", "--", "python", "-c", IMPORTS)
SAID = "theirs lib-a mine "


@pytest.fixture
def locked(terminal: Terminal) -> Terminal:
    workspace(terminal.work)
    subprocess.run([UV, "lock", "--quiet"], cwd=terminal.work, env=terminal.environ, check=True)
    return terminal


def test_here_the_folder_itself_is_used_and_a_copy_where_one_is_sent(locked: Terminal) -> None:
    done = locked.gpulayer("run", *RUN)
    assert done.stdout == f"{SAID}{locked.work}/src/theirs/__init__.py\n", done
    done = locked.gpulayer("run", "--source", ".", *RUN)
    assert done.stdout.startswith(f"{SAID}{locked.folder}/home/"), done
    assert done.stdout.endswith("/src/theirs/__init__.py\n")
    assert locked.job()["preparation"]["steps"][1]["note"] == "reused"
    done = locked.gpulayer("run", "-r", "uv.lock", "--", "sh", "-c", "speak")
    assert done.stdout == "theirs speaks\n", done


def test_what_is_not_python_alone_is_named(locked: Terminal) -> None:
    about = locked.work / "packages" / "lib-a" / "pyproject.toml"
    about.write_text(about.read_text().replace('"uv_build"\n', '"maturin"\n'))
    done = locked.gpulayer("run", *RUN)
    assert done.returncode == 126, done
    assert "lib-a, the package in packages/lib-a, cannot be used from its folder" in done.stderr
    assert "built by maturin" in done.stderr


def test_a_package_outside_of_what_is_sent_is_named(locked: Terminal) -> None:
    inner = locked.work / "inner"
    sources = '[tool.uv.sources]\nmine = {path = "../mine"}\n'
    project(inner, "inner", UV_BUILD, sources, needs='"mine"')
    subprocess.run([UV, "lock", "--quiet"], cwd=inner, env=locked.environ, check=True)
    words = ["-r", "uv.lock", "--", "python", "-c", "import inner, mine; print(mine.name)"]
    locked.work = inner
    assert locked.gpulayer("run", *words).stdout == "mine\n"
    done = locked.gpulayer("run", "--source", ".", *words)
    assert done.returncode == 126, done
    assert "mine is in ../mine, outside of the folder that was sent" in done.stderr
    done = locked.gpulayer("run", "--source", "..", *words)
    assert done.stdout == "mine\n", done


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--no-worker") as served:
        yield served


def test_on_another_machine_they_come_along(
    served: Served, locked: Terminal, base: BasePython
) -> None:
    link = served.link(served.invite())
    joined = locked.gpulayer("join", link, "--name", "lab", "--python", base.python)
    assert joined.returncode == 0, joined
    assert locked.gpulayer("login", served.login).returncode == 0
    done = locked.gpulayer("env", "prepare", "-r", "uv.lock")
    assert done.stderr.startswith("lab: ready in "), done
    done = locked.gpulayer("run", *RUN)
    assert done.stdout.startswith(SAID), done
    assert locked.job()["preparation"]["steps"][1]["note"] == "reused"
