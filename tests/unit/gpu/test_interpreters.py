from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpulayer.gpu.interpreters import describe, find_interpreters
from gpulayer.gpu.machine import Completed


class Machine:
    """A folder with Pythons in it. They are machine code by their first bytes only, so a version
    that no file tells is answered by `run`, which remembers who was started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"HOME": str(folder / "home"), "PATH": ""}
        self.versions: dict[str, str] = {}
        self.started: list[str] = []

    def program(self, path: str, version: str = "") -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\x7fELF")
        file.chmod(0o755)
        self.versions[str(file)] = version
        return file

    def link(self, path: str, to: Path) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(to)
        return file

    def venv(self, path: str, base: Path, version: str, more: str = "") -> Path:
        python = self.link(f"{path}/bin/python", base)
        config = f"home = {base.parent}\nversion = {version}\n{more}"
        (self.folder / path / "pyvenv.cfg").write_text(config)
        return python

    def path(self, *folders: str) -> None:
        self.environ["PATH"] = os.pathsep.join(str(self.folder / one) for one in folders)

    def run(self, argv: Sequence[str], seconds: float) -> Completed:
        self.started.append(argv[0])
        assert list(argv[1:3]) == ["-I", "-S"]
        return Completed(0, self.versions[argv[0]] + "\n")

    def found(self) -> dict[str, str | None]:
        every = find_interpreters(self.environ, run=self.run, system=(), conda=())
        return {str(Path(one.path).relative_to(self.folder)): one.version for one in every}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_system_python_is_the_file_behind_its_links_and_is_started_once(
    machine: Machine,
) -> None:
    real = machine.program("usr/bin/python3.11", "3.11.2")
    machine.link("usr/bin/python3", real)
    machine.link("usr/bin/python", real)
    machine.path("usr/bin")
    assert machine.found() == {"usr/bin/python3.11": "3.11.2"}
    assert machine.found() == {"usr/bin/python3.11": "3.11.2"}
    assert machine.started == [str(real)]


def test_a_python_that_changed_is_asked_again(machine: Machine) -> None:
    real = machine.program("usr/bin/python3.11", "3.11.2")
    machine.path("usr/bin")
    machine.found()
    machine.versions[str(real)] = "3.11.9"
    os.utime(real, ns=(1, 1))
    assert machine.found() == {"usr/bin/python3.11": "3.11.9"}


def test_the_active_environment_comes_first_and_keeps_its_own_name(machine: Machine) -> None:
    base = machine.program("usr/bin/python3.12", "3.12.7")
    machine.venv("project/.venv", base, "3.12.7")
    machine.environ["VIRTUAL_ENV"] = str(machine.folder / "project/.venv")
    machine.path("usr/bin")
    assert list(machine.found()) == ["project/.venv/bin/python", "usr/bin/python3.12"]


def test_a_pyenv_shim_is_replaced_by_what_it_would_choose(machine: Machine) -> None:
    shim = machine.folder / "home/.pyenv/shims/python"
    shim.parent.mkdir(parents=True)
    shim.write_text("#!/usr/bin/env bash\nexec pyenv exec python\n")
    shim.chmod(0o755)
    for version in ("3.9.18", "3.10.13", "3.13.0"):
        machine.program(f"home/.pyenv/versions/{version}/bin/python3.x".replace(".x", ""))
        machine.link(
            f"home/.pyenv/versions/{version}/bin/python",
            machine.folder / f"home/.pyenv/versions/{version}/bin/python3",
        )
    (machine.folder / "home/.pyenv/version").write_text("3.10.13\n")
    machine.path("home/.pyenv/shims")
    assert list(machine.found().values()) == ["3.10.13", "3.13.0", "3.9.18"]
    machine.environ["PYENV_VERSION"] = "3.9.18"
    assert list(machine.found().values()) == ["3.9.18", "3.13.0", "3.10.13"]
    assert machine.started == []


def test_a_shim_of_another_version_manager_is_no_python(machine: Machine) -> None:
    manager = machine.program("opt/mise")
    machine.link("shims/python", manager)
    machine.path("shims")
    assert machine.found() == {}


def test_uv_and_conda_pythons_are_found_without_being_started(machine: Machine) -> None:
    machine.program("home/.local/share/uv/python/cpython-3.12.7-linux-x86_64-gnu/bin/python3")
    machine.program("home/miniforge3/envs/train/bin/python")
    record = machine.folder / "home/miniforge3/envs/train/conda-meta/python-3.10.15-h4a8.json"
    record.parent.mkdir()
    record.write_text("{}")
    assert sorted(str(version) for version in machine.found().values()) == ["3.10.15", "3.12.7"]
    assert machine.started == []


def test_conda_environments_elsewhere_are_listed_by_conda(machine: Machine) -> None:
    machine.program("data/envs/jax/bin/python", "3.11.8")
    listing = machine.folder / "home/.conda/environments.txt"
    listing.parent.mkdir(parents=True)
    listing.write_text(f"{machine.folder}/data/envs/jax\n")
    assert machine.found() == {"data/envs/jax/bin/python": "3.11.8"}


@pytest.mark.parametrize("version", ["2.7.18", "3.6.15", "3.7.17"])
def test_pythons_before_3_8_are_left_out(machine: Machine, version: str) -> None:
    machine.program("usr/bin/python3", version)
    machine.path("usr/bin")
    assert machine.found() == {}


@pytest.mark.parametrize("receipt", ["uv-receipt.toml", "pipx_metadata.json", "../CACHEDIR.TAG"])
def test_an_environment_that_holds_only_a_tool_is_left_out(machine: Machine, receipt: str) -> None:
    base = machine.program("usr/bin/python3.12", "3.12.7")
    machine.venv("tools/gpulayer", base, "3.12.7")
    (machine.folder / "tools/gpulayer" / receipt).write_text("")
    machine.path("tools/gpulayer/bin")
    assert machine.found() == {}


def test_what_does_not_answer_like_a_python_is_left_out(machine: Machine) -> None:
    machine.program("usr/bin/python3", "Segmentation fault")
    machine.path("usr/bin", "not/there")
    assert machine.found() == {}


def package(folder: Path, name: str) -> None:
    (folder / f"{name}.dist-info").mkdir(parents=True)
    (folder / f"{name}.dist-info" / "METADATA").write_text("")


def test_an_environment_has_its_own_packages(machine: Machine) -> None:
    base = machine.program("opt/py/bin/python3.12", "3.12.7")
    package(machine.folder / "opt/py/lib/python3.12/site-packages", "numpy-1.26.0")
    venv = machine.venv("venv", base, "3.12.7")
    package(machine.folder / "venv/lib/python3.12/site-packages", "torch-2.6.0+cu124")
    assert describe(venv, environ=machine.environ).frameworks == {"torch": "2.6.0+cu124"}


def test_an_environment_that_shares_the_systems_packages_hides_those_it_has(
    machine: Machine,
) -> None:
    base = machine.program("opt/py/bin/python3.12", "3.12.7")
    package(machine.folder / "opt/py/lib/python3.12/site-packages", "numpy-1.26.0")
    package(machine.folder / "opt/py/lib/python3.12/site-packages", "scipy-1.14.0")
    venv = machine.venv("venv", base, "3.12.7", "include-system-site-packages = true\n")
    package(machine.folder / "venv/lib/python3.12/site-packages", "numpy-2.1.0")
    known = describe(venv, environ=machine.environ)
    assert known.frameworks == {"numpy": "2.1.0", "scipy": "1.14.0"}


def test_a_users_own_packages_count_for_a_system_python(machine: Machine) -> None:
    python = machine.program("usr/bin/python3.11", "3.11.2")
    package(machine.folder / "home/.local/lib/python3.11/site-packages", "torch-2.4.0")
    known = describe(python, run=machine.run, environ=machine.environ)
    assert known.frameworks == {"torch": "2.4.0"}


def test_what_is_no_python_has_no_version(tmp_path: Path) -> None:
    assert describe(tmp_path / "nothing").version is None
    assert describe("/bin/sh").version is None


def test_the_python_that_runs_this_test_says_the_same_of_itself() -> None:
    known = describe(sys.executable)
    ask = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    said = subprocess.run(
        [known.path, "-I", "-S", "-c", ask], capture_output=True, text=True, check=True
    )
    assert known.version == said.stdout.strip()
