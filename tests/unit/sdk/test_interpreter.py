"""Which Python a line means: the table of the same-world study, row by row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpulayer.sdk.interpreter import Client, Interpreter, for_line, for_program

AWAY = Client(prefix="/opt/gpulayer", executable="/opt/gpulayer/bin/python", version="3.11.9")


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def environment(prefix: Path, version: str = "3.12.7", *scripts: str) -> Path:
    for name in ("python", "python3", *scripts):
        program(prefix / "bin" / name)
    (prefix / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}\n")
    return prefix


def path_of(*folders: Path) -> str:
    return os.pathsep.join(str(folder) for folder in folders)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A system with a `python` of its own, first and only on PATH."""
    program(tmp_path / "usr" / "bin" / "python")
    return tmp_path / "usr" / "bin"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "deep" / "er").mkdir(parents=True)
    return tmp_path / "project"


def choose(line: str, environ: dict[str, str], folder: Path, client: Client = AWAY) -> Interpreter:
    return for_line(line.split(), environ, str(folder), client)


def test_an_active_environment_is_meant(tmp_path: Path, project: Path, system: Path) -> None:
    venv = environment(tmp_path / "lab", "3.10.2")
    environment(project / ".venv")
    environ = {"VIRTUAL_ENV": str(venv), "PATH": path_of(venv / "bin", system)}
    chosen = choose("python t.py", environ, project)
    assert chosen.path == str(venv / "bin" / "python")
    assert chosen.say() == "python 3.10.2 (active: lab)"
    assert chosen.changes == {}


def test_a_venv_that_was_not_activated_counts_as_activated(project: Path, system: Path) -> None:
    venv = environment(project / ".venv")
    environ = {"PATH": path_of(system), "PYTHONHOME": "/x"}
    chosen = choose("python t.py", environ, project)
    assert chosen.path == str(venv / "bin" / "python")
    assert chosen.say() == "python 3.12.7 (.venv)"
    assert chosen.changes == {
        "VIRTUAL_ENV": str(venv),
        "PATH": path_of(venv / "bin", system),
    }
    assert chosen.removed == ("PYTHONHOME",)


def test_a_venv_is_looked_for_upward(project: Path, system: Path) -> None:
    venv = environment(project / ".venv")
    chosen = choose("python3 t.py", {"PATH": path_of(system)}, project / "deep" / "er")
    assert chosen.path == str(venv / "bin" / "python")
    assert chosen.why == "../../.venv"


def test_a_script_that_only_the_venv_has_activates_it(project: Path, system: Path) -> None:
    environment(project / ".venv", "3.12.7", "pytest", "make")
    program(system / "make")
    environ = {"PATH": path_of(system)}
    assert choose("pytest -q", environ, project).why == ".venv"
    assert choose("make all", environ, project).changes == {}
    assert choose("ls", environ, project).changes == {}
    assert choose("./pytest", environ, project).changes == {}


def test_a_folder_without_python_is_no_venv(project: Path, system: Path) -> None:
    (project / ".venv").mkdir()
    assert choose("python", {"PATH": path_of(system)}, project).why == "first on PATH"


def test_dockerfile_style_is_the_first_on_path(tmp_path: Path, project: Path, system: Path) -> None:
    venv = environment(tmp_path / "opt" / "venv")
    environ = {"PATH": path_of(venv / "bin", system)}
    chosen = choose("python t.py", environ, project)
    assert chosen.path == str(venv / "bin" / "python")
    assert chosen.say() == f"python 3.12.7 ({venv}, first on PATH)"
    environment(project / ".venv", "3.9.1")
    assert choose("python t.py", environ, project).say() == "python 3.9.1 (.venv)"


def test_a_conda_prefix_beats_a_venv_as_it_would_bare(
    tmp_path: Path, project: Path, system: Path
) -> None:
    prefix = tmp_path / "conda" / "envs" / "lab"
    program(prefix / "bin" / "python")
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "python-3.12.4-h99d_0.json").write_text("{}")
    environment(project / ".venv")
    environ = {"CONDA_PREFIX": str(prefix), "PATH": path_of(prefix / "bin", system)}
    chosen = choose("python t.py", environ, project)
    assert chosen.path == str(prefix / "bin" / "python")
    assert chosen.say() == "python 3.12.4 (conda: lab)"


def test_a_stale_activation_is_not_believed(tmp_path: Path, project: Path, system: Path) -> None:
    gone = environment(tmp_path / "gone")
    environ = {"VIRTUAL_ENV": str(gone), "PATH": path_of(system)}
    chosen = choose("python t.py", environ, project)
    assert chosen.path == str(system / "python")
    assert chosen.changes == {}


@pytest.mark.parametrize(
    ("environ", "local", "version"),
    [
        ({"PYENV_VERSION": "3.10.13"}, "3.9.18", "3.10.13"),
        ({}, "3.9", "3.9.18"),
        ({}, "", "3.12.1"),
    ],
)
def test_a_shim_chooses_by_its_own_rule(
    tmp_path: Path, project: Path, environ: dict[str, str], local: str, version: str
) -> None:
    root = tmp_path / "pyenv"
    program(root / "shims" / "python")
    (root / "version").write_text("3.12.1\n")
    for name in ("3.9.2", "3.9.18", "3.10.13", "3.12.1"):
        program(root / "versions" / name / "bin" / "python")
    if local:
        (project / ".python-version").write_text(local + "\n")
    chosen = choose("python", {"PATH": path_of(root / "shims"), **environ}, project / "deep")
    assert chosen.say() == f"python {version} (pyenv)"


def test_the_bin_that_a_shim_put_first_is_meant(tmp_path: Path, project: Path) -> None:
    root = tmp_path / "pyenv"
    shim = program(root / "shims" / "python")
    real = program(root / "versions" / "3.12.1" / "bin" / "python")
    environ = {"PATH": path_of(real.parent, shim.parent), "PYENV_VERSION": "3.12.1"}
    chosen = choose("python", environ, project)
    assert (chosen.path, chosen.version) == (str(real), "3.12.1")


def test_a_system_without_python_means_python3(tmp_path: Path, project: Path) -> None:
    target = program(tmp_path / "usr" / "bin" / "python3.11")
    (target.parent / "python3").symlink_to("python3.11")
    environ = {"PATH": path_of(target.parent)}
    chosen = choose("python t.py", environ, project)
    assert chosen.say() == "python 3.11 (python3, as there is no python)"
    assert chosen.line(["python", "t.py"], environ) == [str(target.parent / "python3"), "t.py"]
    assert chosen.line(["make"], environ) == ["make"]


def test_a_machine_without_python_says_so(tmp_path: Path, project: Path) -> None:
    chosen = choose("python", {"PATH": path_of(tmp_path)}, project)
    assert (chosen.path, chosen.why) == ("", "none found")
    assert chosen.line(["python"], {"PATH": path_of(tmp_path)}) == ["python"]


@pytest.mark.parametrize("marker", ["uv-receipt.toml", "pipx_metadata.json"])
def test_a_tools_own_environment_is_never_meant(
    tmp_path: Path, project: Path, system: Path, marker: str
) -> None:
    tool = environment(tmp_path / "tools" / "gpulayer")
    (tool / marker).write_text("")
    client = Client(str(tool), str(tool / "bin" / "python"), "3.12.7")
    environ = {"PATH": path_of(tool / "bin", system)}
    chosen = choose("python t.py", environ, project, client)
    assert chosen.path == str(system / "python")
    assert chosen.changes == {"PATH": path_of(system)}


def test_uvx_puts_its_tool_first_and_is_not_meant(
    tmp_path: Path, project: Path, system: Path
) -> None:
    cache = tmp_path / "cache"
    tool = environment(cache / "archive-v0" / "x1")
    (cache / "CACHEDIR.TAG").write_text("")
    client = Client(str(tool), str(tool / "bin" / "python"), "3.12.7")
    environ = {"PATH": path_of(tool / "bin", system)}
    assert choose("python", environ, project, client).path == str(system / "python")
    venv = environment(project / ".venv")
    chosen = choose("python", environ, project, client)
    assert chosen.changes["PATH"] == path_of(venv / "bin", system)


def test_an_environment_of_uv_holds_a_tag_itself_and_is_meant(
    tmp_path: Path, project: Path, system: Path
) -> None:
    venv = environment(tmp_path / "lab")
    (venv / "CACHEDIR.TAG").write_text("")
    client = Client(str(venv), str(venv / "bin" / "python"), "3.12.7")
    chosen = choose("python", {"PATH": path_of(venv / "bin", system)}, project, client)
    assert chosen.path == str(venv / "bin" / "python")


def test_a_script_with_inline_requirements_runs_in_an_active_environment(
    tmp_path: Path, project: Path, system: Path
) -> None:
    cache = tmp_path / "cache"
    (cache / "environments-v2").mkdir(parents=True)
    (cache / "CACHEDIR.TAG").write_text("")
    made = environment(cache / "environments-v2" / "s-09dd", "3.13.1")
    client = Client(str(made), str(made / "bin" / "python"), "3.13.1")
    environ = {"VIRTUAL_ENV": str(made), "PATH": path_of(made / "bin", system)}
    chosen = choose("python", environ, project, client)
    assert chosen.say() == "python 3.13.1 (active: s-09dd)"


def test_a_program_means_its_own_python(project: Path, system: Path) -> None:
    environment(project / ".venv")
    environ = {"PATH": path_of(system)}
    assert for_program(environ, str(project), AWAY).path == AWAY.executable
    odd = Client("/opt/gpulayer", "", "3.11.9")
    assert for_program(environ, str(project), odd).why == ".venv"


def test_each_real_environment_is_what_python_itself_says(tmp_path: Path) -> None:
    """A venv made by the machine's own tools, asked for both ways."""
    venv = tmp_path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    asked = [str(venv / "bin" / "python"), "-c", "import sys; print(sys.prefix, sys.version)"]
    prefix, version = subprocess.check_output(asked, text=True).split()[:2]
    chosen = choose("python", {"PATH": os.defpath}, tmp_path)
    assert chosen.path == f"{prefix}/bin/python"
    assert chosen.version == version
    active = {"VIRTUAL_ENV": str(venv), "PATH": path_of(venv / "bin")}
    assert choose("python", active, tmp_path).why == "active: .venv"
