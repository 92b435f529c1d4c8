# ruff: noqa: F401, F811
"""Packages of the job's own folder: used from there, never built; and those that a lock takes from
an address."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from gpulayer.errors import PreparationError
from gpulayer.worker.environments.packages import VARIABLE, Local, project_of
from tests.support.packages import BasePython, Packages
from tests.unit.worker.preparing import Terminal, prepare, runner_of
from tests.unit.worker.test_environment_files import lock, provide, refusal
from tests.unit.worker.test_environments import Bench, base, bench, by_uv, has, packages, versions

UV = find_uv_bin()
UV_BUILD = '[build-system]\nrequires = ["uv_build"]\nbuild-backend = "uv_build"\n'


def project(
    folder: Path, name: str, *more: str, needs: str = "", module: str = "src", scripts: str = ""
) -> None:
    """A package with one module that tells its name."""
    where = folder / module / name.replace("-", "_")
    where.mkdir(parents=True)
    (where / "__init__.py").write_text(f"name = {name!r}\ndef main(): print(name, 'speaks')\n")
    about = f'[project]\nname = "{name}"\nversion = "0.1"\nrequires-python = ">=3.8"\n'
    about += f"dependencies = [{needs}]\n{scripts}"
    (folder / "pyproject.toml").write_text(about + "".join(more or (UV_BUILD,)))


def workspace(folder: Path) -> None:
    """A project, a member of its workspace, and a package by path."""
    project(folder / "packages" / "lib-a", "lib-a")
    project(folder / "mine", "mine", "", module=".")
    project(
        folder, "theirs", UV_BUILD,
        '[tool.uv.workspace]\nmembers = ["packages/*"]\n'
        '[tool.uv.sources]\nlib-a = {workspace = true}\nmine = {path = "mine"}\n',
        needs='"lib-a", "mine"', scripts='[project.scripts]\nspeak = "theirs:main"\n',
    )  # fmt: skip


def started(folder: Path, work: Path, file: str) -> dict[str, Any]:
    """The start of a job in that folder."""
    spec = {
        "workload": {"kind": "command", "command": ["python"]},
        "environment": {"file": file},
    }
    origin = {"interpreter": {"path": sys.executable, "why": "x"}, "cwd": str(work)}
    return prepare(runner_of(folder, {}), spec, Terminal(PATH="/usr/bin:/bin"), origin=origin)


def test_a_project_and_what_lies_beside_it_are_used_from_their_folders(
    tmp_path: Path, packages: Packages
) -> None:
    work = tmp_path / "p"
    workspace(work)
    uv = dict(packages.environ)
    subprocess.run([UV, "lock", "--quiet"], cwd=work, env=uv, check=True)
    start = started(tmp_path / "tasks", work, "uv.lock")
    show = "import theirs, lib_a, mine; from importlib.metadata import version as v; "
    show += "print(theirs.__file__, lib_a.__file__, mine.__file__, v('theirs'), v('lib-a'))"
    for python in ([start["argv"][0]], [start["argv"][0], "-I"]):
        done = subprocess.run(
            [*python, "-c", show], env=start["set"], capture_output=True, text=True, check=True,
            cwd="/",
        )  # fmt: skip
        paths = [f"{work}/{p}/__init__.py" for p in (
            "src/theirs", "packages/lib-a/src/lib_a", "mine/mine",
        )]  # fmt: skip
        assert done.stdout.split() == [*paths, "0.1", "0.1"]
    done = subprocess.run(["speak"], env=start["set"], capture_output=True, text=True, check=True)
    assert done.stdout == "theirs speaks\n"
    assert not list(work.rglob("*.egg-info"))
    assert VARIABLE not in start["unset"]
    again = started(tmp_path / "tasks", work, "pyproject.toml")
    assert again["set"][VARIABLE] == start["set"][VARIABLE]


def test_a_project_without_a_lock_is_used_from_its_folder_too(tmp_path: Path) -> None:
    work = tmp_path / "p"
    project(work, "theirs")
    start = started(tmp_path / "tasks", work, "pyproject.toml")
    assert start["set"][VARIABLE].startswith(f"{work}/src:")
    plain = tmp_path / "plain"
    project(plain, "plain", "[tool]\n")
    without = started(tmp_path / "tasks", plain, "pyproject.toml")
    assert VARIABLE not in without["set"]
    assert VARIABLE in without["unset"], "of the job that submits it"


@pytest.mark.parametrize(
    ("about", "roots"),
    [
        (UV_BUILD, ["src"]),
        (UV_BUILD + '[tool.uv.build-backend]\nmodule-root = "lib"\n', ["lib"]),
        (('[build-system]\nbuild-backend = "setuptools.build_meta"\n'
         '[tool.setuptools.packages.find]\nwhere = ["lib"]\n'), ["lib"]),
        (('[build-system]\nbuild-backend = "hatchling.build"\n'
         '[tool.hatch.build.targets.wheel]\npackages = ["lib/it", "src/other"]\n'), ["lib", "src"]),
        (('[build-system]\nbuild-backend = "poetry.core.masonry.api"\n'
         '[[tool.poetry.packages]]\ninclude = "it"\nfrom = "lib"\n'), ["lib"]),
        ('[build-system]\nbuild-backend = "flit_core.buildapi"\n', ["src"]),
    ],
)  # fmt: skip
def test_modules_are_where_the_project_says(tmp_path: Path, about: str, roots: list[str]) -> None:
    project(tmp_path, "it", about, module="lib")
    project(tmp_path, "it", about, module="src")
    found = project_of(Local("it", "1", "."), str(tmp_path)).roots
    assert [str(Path(root).relative_to(tmp_path)) for root in found] == roots


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ('[build-system]\nbuild-backend = "maturin"\n', "built by maturin"),
        ('[build-system]\nbuild-backend = "b"\nbackend-path = ["."]\n', "built by b"),
        ('[build-system]\nbuild-backend = "mesonpy"\n', "built by mesonpy"),
        ('[[tool.setuptools.ext-modules]]\nname = "x"\n', "tool.setuptools.ext-modules"),
        (('[tool.hatch.build.hooks.custom]\npath = "h.py"\n'
         '[build-system]\nbuild-backend = "hatchling.build"\n'), "tool.hatch.build.hooks.custom"),
        ('[tool.setuptools.packages.find]\nwhere = ["../up"]\n', "outside of its folder"),
        ('[tool.setuptools.packages.find]\nwhere = ["nosuch"]\n', "no module"),
        ("", "its setup.py compiles"),
        ("[", "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_more_than_python_files_is_refused_by_name(
    tmp_path: Path, about: str, why: str
) -> None:
    project(tmp_path, "it", about)
    if "setup.py" in why:
        (tmp_path / "setup.py").write_text("setup(ext_modules=[])\n")
    with pytest.raises(PreparationError) as refused:
        project_of(Local("it", "1", "packages/it"), str(tmp_path))
    assert "it, the package in packages/it, cannot be used" in refused.value.message
    assert why in refused.value.why


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PreparationError) as refused:
        project_of(Local("it", "1", "packages/it"), str(tmp_path / "nosuch"))
    assert "its folder is not there" in refused.value.why


def test_a_project_without_a_lock_that_says_where_packages_are_is_refused(
    by_uv: Bench, tmp_path: Path
) -> None:
    """Else a package of that name would be taken from an index."""
    project(
        tmp_path, "theirs", UV_BUILD, '[tool.uv.sources]\nLib_A = {workspace = true}\n',
        needs='"lib-a"',
    )  # fmt: skip
    error = refusal(by_uv, tmp_path, "pyproject.toml")
    assert "dependencies[0] is 'lib-a', which tool.uv.sources takes from its work" in error.message
    assert "uv lock" in error.why


# --- from an address ------------------------------------------------------------------------------


@pytest.fixture
def by_git(tmp_path: Path, packages: Packages, by_uv: Bench) -> Path:
    """A project whose lock has `gitlib` from a repository, and that needs gamma."""
    repository = tmp_path / "repository"
    repository.mkdir()
    wheel = packages.waiting("gitlib")
    wheel.let_go()
    sdist = packages.index / "gitlib-1.0.tar.gz"
    subprocess.run(["tar", "-xzf", str(sdist), "--strip-components=1"], cwd=repository, check=True)
    sdist.unlink()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], cwd=repository, check=True)
    work = tmp_path / "p"
    about = '[project]\nname = "theirs"\nversion = "1"\nrequires-python = ">=3.8"\n'
    about += 'dependencies = ["gitlib", "gamma"]\n'
    lock(
        work,
        by_uv.environ,
        about + f'[tool.uv.sources]\ngitlib = {{git = "file://{repository}"}}\n',
    )
    return work


def test_a_package_from_git_is_for_the_worker_to_allow(
    by_uv: Bench, by_git: Path, tmp_path: Path
) -> None:
    lines = (by_git / "uv.lock").read_text().splitlines()
    number = lines.index('name = "gitlib"') + 1
    error = refusal(by_uv, by_git, "uv.lock")
    assert error.message.startswith(f"uv.lock:{number}: gitlib comes from an address, git+file://")
    assert "GPULAYER_REQUIREMENT_LINES=any" in error.why
    by_uv.environ = {**by_uv.environ, "GPULAYER_REQUIREMENT_LINES": "any"}
    ready = provide(by_uv, by_git, "uv.lock")
    assert versions(ready, "gitlib", "gamma", "alpha") == ["1.0", "1.0", "2.0"]
    pylock = [UV, "export", "-q", "--frozen", "--offline", "--format", "pylock.toml"]
    subprocess.run([*pylock, "-o", "pylock.toml"], cwd=by_git, check=True, env=by_uv.environ)
    assert versions(provide(by_uv, by_git, "pylock.toml", task="t2"), "gitlib") == ["1.0"]


def test_a_pylock_names_the_packages_of_the_folder(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "pylock.toml").write_text(
        'lock-version = "1.0"\n[[packages]]\nname = "theirs"\n'
        'directory = {path = ".", editable = true}\n'
        '[[packages]]\nname = "never"\nmarker = "python_version < \'3\'"\n'
        'directory = {path = "never"}\n'
    )
    assert provide(bench, tmp_path, "pylock.toml").packages == (Local("theirs", "0", "."),)
    assert provide(bench, tmp_path, "pylock.toml", task="t2").packages[0].path == "."
