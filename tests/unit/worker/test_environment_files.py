# ruff: noqa: F401, F811
"""Environments from a file of the job: a lock is used as it is, nothing says where code is from."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from gpulayer.clock import SystemClock
from gpulayer.errors import PreparationError
from gpulayer.worker.environments import files
from gpulayer.worker.environments.building import Patience
from gpulayer.worker.environments.making import find_uv
from gpulayer.worker.environments.store import Ready, Wanted
from tests.support.packages import BasePython, Packages
from tests.unit.worker.test_environments import (
    Bench,
    base,
    bench,
    by_uv,
    has,
    packages,
    versions,
)

PROJECT = """[project]
name = "theirs"
version = "0.1"
requires-python = ">=3.8"
dependencies = ["beta"]
"""


def pinned(packages: Packages, *pins: tuple[str, str]) -> str:
    """Of a requirements file as installers write it, over two lines each."""
    lines = []
    for name, version in pins:
        wheel = packages.index / f"{name}-{version}-py3-none-any.whl"
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"{name}=={version} \\\n    --hash=sha256:{digest}\n    # via a test\n")
    return "".join(lines)


def pylock(packages: Packages, *pins: tuple[str, str], python: str = ">=3.8") -> str:
    text = f'lock-version = "1.0"\ncreated-by = "a test"\nrequires-python = "{python}"\n'
    for name, version in pins:
        wheel = f"{name}-{version}-py3-none-any.whl"
        digest = hashlib.sha256((packages.index / wheel).read_bytes()).hexdigest()
        text += f'[[packages]]\nname = "{name}"\nversion = "{version}"\n'
        text += f'wheels = [{{name = "{wheel}", url = "https://elsewhere.example/{wheel}", '
        text += f'hashes = {{sha256 = "{digest}"}}}}]\n'
    return text


def lock(folder: Path, environ: dict[str, str], project: str = PROJECT) -> None:
    """A project with its uv.lock, by uv."""
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(project)
    uv = find_uv(environ)
    assert uv is not None
    subprocess.run([uv, "lock", "--quiet"], cwd=folder, env=environ, check=True)


def provide(
    bench: Bench,
    folder: Path,
    name: str,
    *requirements: str,
    task: str = "t1",
) -> Ready:
    wanted = bench.wanted(task, *requirements)
    given = files.read(str(folder), name)
    wanted = Wanted(requirements, wanted.base, wanted.task_folder, wanted.environ, given)
    return bench.all.provide(wanted, Patience.begin(SystemClock(), 600, lambda: True))


def refusal(bench: Bench, folder: Path, name: str, *more: str) -> PreparationError:
    with pytest.raises(PreparationError) as refused:
        provide(bench, folder, name, *more)
    assert refused.value.code == "environment-failed"
    assert not bench.folder.exists() or bench.keys() == []
    return refused.value


# --- what is in it ----------------------------------------------------------------------------


def test_of_a_locked_file_what_the_base_has_is_not_installed_again(
    bench: Bench,
    base: BasePython,
    packages: Packages,
    tmp_path: Path,
) -> None:
    before = base.files()
    (tmp_path / "r.txt").write_text(pinned(packages, ("alpha", "1.0"), ("gamma", "1.0")))
    ready = provide(bench, tmp_path, "r.txt")
    assert versions(ready, "gamma", "alpha") == ["1.0", "1.0"]
    assert has(ready, "gamma")
    assert not has(ready, "alpha")
    assert base.files() == before


@pytest.mark.parametrize("kind", ["r.txt", "pylock.toml"])
def test_another_version_than_the_base_has_is_the_locks_and_said(
    bench: Bench,
    packages: Packages,
    tmp_path: Path,
    kind: str,
) -> None:
    write = pylock if kind == "pylock.toml" else pinned
    (tmp_path / kind).write_text(write(packages, ("beta", "1.0"), ("alpha", "2.0")))
    ready = provide(bench, tmp_path, kind)
    assert versions(ready, "beta", "alpha") == ["1.0", "2.0"]
    assert ready.how.endswith("; alpha==2.0 over 1.0")


def test_a_lock_is_never_solved_again(
    bench: Bench,
    packages: Packages,
    tmp_path: Path,
) -> None:
    """It has the oldest version, and lacks what one of its packages needs."""
    (tmp_path / "r.txt").write_text(pinned(packages, ("alpha", "1.0")))
    packages.wheel("alpha", "3.0")
    assert versions(provide(bench, tmp_path, "r.txt"), "alpha") == ["1.0"]
    packages.wheel("epsilon", "1.0", needs=["zeta"])
    packages.wheel("zeta", "1.0")
    (tmp_path / "more.txt").write_text(pinned(packages, ("epsilon", "1.0")))
    with pytest.raises(PreparationError) as refused:
        provide(bench, tmp_path, "more.txt", task="t2")
    assert "zeta is needed by a package of the lock and not in it" in refused.value.why


def test_a_wheel_that_is_not_the_locked_one_is_refused(
    bench: Bench,
    packages: Packages,
    tmp_path: Path,
) -> None:
    (tmp_path / "r.txt").write_text("gamma==1.0 --hash=sha256:" + "0" * 64 + "\n")
    assert "hash" in refusal(bench, tmp_path, "r.txt").why.lower()


def test_a_project_is_installed_as_its_lock_says(
    by_uv: Bench,
    packages: Packages,
    tmp_path: Path,
) -> None:
    lock(tmp_path / "p", by_uv.environ)
    packages.wheel("beta", "2.0", needs=["alpha"])
    for task, name in (("t1", "p/uv.lock"), ("t2", "p/pyproject.toml")):
        ready = provide(by_uv, tmp_path, name, task=task)
        assert versions(ready, "beta", "alpha") == ["1.0", "2.0"]
    assert ready.how == "reused"
    (tmp_path / "p" / "uv.lock").unlink()
    ready = provide(by_uv, tmp_path, "p/pyproject.toml", task="t3")
    assert versions(ready, "beta") == ["2.0"]


def test_requirements_beside_a_lock_are_solved_around_it(
    bench: Bench,
    packages: Packages,
    tmp_path: Path,
) -> None:
    packages.wheel("delta", "1.0")
    (tmp_path / "r.txt").write_text(pinned(packages, ("alpha", "1.0")))
    ready = provide(bench, tmp_path, "r.txt", "delta", "gamma")
    assert versions(ready, "delta", "gamma", "alpha") == ["1.0", "1.0", "1.0"]
    with pytest.raises(PreparationError) as refused:
        provide(bench, tmp_path, "r.txt", "beta", task="t2")  # it needs alpha>=2
    assert "alpha" in refused.value.why


def test_another_content_is_another_environment_and_another_name_is_not(
    by_uv: Bench,
    packages: Packages,
    tmp_path: Path,
) -> None:
    (tmp_path / "r.txt").write_text("gamma\n")
    one = provide(by_uv, tmp_path, "r.txt")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "r.txt").write_text("gamma\n")
    assert provide(by_uv, tmp_path, "sub/r.txt", task="t2").folder == one.folder
    (tmp_path / "r.txt").write_text("gamma\nalpha\n")
    assert provide(by_uv, tmp_path, "r.txt", task="t3").folder != one.folder


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ["--index-url https://me:hunter22@evil/simple", "evil @ https://me:hunter22@evil/x.whl",
     "-e .", "./wheel.whl", "sub/wheel.whl", "-r other.txt", "evil @ file:///x"],
)  # fmt: skip
def test_a_line_that_chooses_where_code_comes_from_is_refused_where_it_stands(
    by_uv: Bench,
    tmp_path: Path,
    line: str,
) -> None:
    (tmp_path / "r.txt").write_text(f"gamma\n\n{line}\n")
    error = refusal(by_uv, tmp_path, "r.txt")
    assert error.message.startswith("r.txt:3 is ")
    assert "hunter22" not in error.message + error.why
    is_of_the_disk = "https" not in line
    assert ("GPULAYER_REQUIREMENT_LINES=any" in error.why) is not is_of_the_disk
    by_uv.environ = {**by_uv.environ, "GPULAYER_REQUIREMENT_LINES": "any"}
    if is_of_the_disk:
        assert refusal(by_uv, tmp_path, "r.txt").message == error.message


def test_by_the_policy_of_its_worker_an_option_reaches_the_installer(
    bench: Bench,
    packages: Packages,
    tmp_path: Path,
) -> None:
    bench.environ = {
        **bench.environ, "GPULAYER_REQUIREMENT_LINES": "any", "PIP_FIND_LINKS": "",
        "UV_NO_CONFIG": "1", "UV_CONFIG_FILE": "",
    }  # fmt: skip
    del bench.environ["UV_CONFIG_FILE"]
    (tmp_path / "r.txt").write_text(f"--no-index\n--find-links {packages.index}\ngamma\n")
    assert versions(provide(bench, tmp_path, "r.txt"), "gamma") == ["1.0"]


@pytest.mark.parametrize("line", ["gamma", "gamma>=1 --hash=sha256:00", "gamma==1.*"])
def test_a_file_with_hashes_has_them_and_a_version_in_each_line(
    by_uv: Bench,
    packages: Packages,
    tmp_path: Path,
    line: str,
) -> None:
    (tmp_path / "r.txt").write_text(pinned(packages, ("alpha", "1.0")) + line + "\n")
    assert refusal(by_uv, tmp_path, "r.txt").message.startswith("r.txt:4 is 'gamma")


def test_a_lock_for_another_python_says_so(
    bench: Bench,
    packages: Packages,
    tmp_path: Path,
) -> None:
    (tmp_path / "pylock.toml").write_text(pylock(packages, ("alpha", "1.0"), python=">=9"))
    assert "Python >=9" in refusal(bench, tmp_path, "pylock.toml").message


def test_a_lock_that_names_a_file_is_refused(
    by_uv: Bench,
    packages: Packages,
    tmp_path: Path,
) -> None:
    (tmp_path / "pylock.toml").write_text(
        'lock-version = "1.0"\n[[packages]]\nname = "a"\nversion = "1"\n'
        'archive = {path = "a.zip"}\n'
    )
    assert "packages[0] (a)" in refusal(by_uv, tmp_path, "pylock.toml").message
    packages.wheel("mine", "1.0")
    sources = f'[tool.uv.sources]\nmine = {{path = "{packages.index}/mine-1.0-py3-none-any.whl"}}\n'
    lock(tmp_path / "p", by_uv.environ, PROJECT.replace('"beta"', '"mine"') + sources)
    lines = (tmp_path / "p" / "uv.lock").read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if ".whl" in line)
    said = refusal(by_uv, tmp_path, "p/uv.lock").message
    assert said.startswith(f"uv.lock:{number}: "), said
    assert "mine-1.0-py3-none-any.whl cannot be installed" in said


def test_a_project_lock_without_uv_says_what_to_do(
    tmp_path: Path,
    base: BasePython,
    packages: Packages,
) -> None:
    by_pip = Bench(tmp_path, base, packages, lambda environ: None)
    lock(tmp_path / "p", packages.environ)
    assert "pylock.toml" in refusal(by_pip, tmp_path / "p", "uv.lock").why


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pylock.toml", b"lock-version = 1.0 ["), ("pylock.toml", b'lock-version = "2.0"'),
        ("pylock.toml", b'lock-version = "1.0"\npackages = 3'), ("r.txt", b"\xff\xfe"),
        ("pyproject.toml", b'[project]\ndependencies = "a"'),
        ("uv.lock", b"version = 99"), ("uv.lock", b"["),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_understood_is_named(
    by_uv: Bench,
    tmp_path: Path,
    name: str,
    content: bytes,
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / name).write_bytes(content)
    assert name in refusal(by_uv, tmp_path, name).message


def test_a_file_that_is_not_there_or_none_is_named(by_uv: Bench, tmp_path: Path) -> None:
    (tmp_path / "d.txt").mkdir()
    for name in ("r.txt", "d.txt", "uv.lock"):
        with pytest.raises(PreparationError) as refused:
            files.read(str(tmp_path), name)
        assert "cannot be read" in refused.value.message
