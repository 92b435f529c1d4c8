"""The Pythons of this machine that a job may use, from 3.8 up.

Looked for: the active environment, PATH, pyenv, uv, conda, the system's folders. A shim is a
script that chooses a Python each time it starts, so it is never listed itself; the one that pyenv
would choose takes its place on PATH. Environments that hold only a tool (`uv tool`, `uvx`, pipx)
are left out. What one of them is, `python_home` says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpulayer.contracts.capabilities import Interpreter
from gpulayer.gpu.frameworks import Drivers, frameworks
from gpulayer.gpu.machine import Runner, run_program
from gpulayer.gpu.python_home import PythonHome, lines, minor

OLDEST = (3, 8)

SYSTEM_FOLDERS = (
    "/usr/local/bin",
    "/usr/bin",
    "/opt/homebrew/bin",
    "/Library/Frameworks/Python.framework/Versions/*/bin",
)
CONDA_FOLDERS = ("/opt/conda", "/opt/miniconda3", "/opt/miniforge3")


def find_interpreters(
    environ: Mapping[str, str],
    *,
    run: Runner = run_program,
    drivers: Drivers | None = None,
    system: Sequence[str] = SYSTEM_FOLDERS,
    conda: Sequence[str] = CONDA_FOLDERS,
) -> tuple[Interpreter, ...]:
    """All of them, each once; the one that a bare `python` would be comes first."""
    home = _home(environ)
    found: dict[Path, Interpreter] = {}
    for candidate in _candidates(environ, system, conda):
        place = PythonHome.of(candidate)
        if place is None or place.executable in found or place.only_a_tool:
            continue
        known = _describe(place, run, drivers or Drivers(), home)
        if known.version is not None and minor(known.version) >= OLDEST:
            found[place.executable] = known
    return tuple(found.values())


def describe(
    path: str | Path,
    *,
    run: Runner = run_program,
    drivers: Drivers | None = None,
    environ: Mapping[str, str] | None = None,
) -> Interpreter:
    """One interpreter by path. What is not a Python has no version and no frameworks."""
    place = PythonHome.of(Path(path))
    if place is None:
        return Interpreter(path=str(path), version=None)
    return _describe(place, run, drivers or Drivers(), _home(environ or os.environ))


def _candidates(
    environ: Mapping[str, str], system: Sequence[str], conda: Sequence[str]
) -> Iterator[Path]:
    home = _home(environ)
    pyenv = Path(environ.get("PYENV_ROOT") or home / ".pyenv")
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name):
            yield Path(environ[name], "bin", "python")
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        if folder and Path(folder) == pyenv / "shims":
            yield from _pyenv_choice(environ, pyenv)
        elif folder:
            yield from _pythons(Path(folder))
    yield from _each(pyenv / "versions")
    for root in _uv_folders(environ, home):
        yield from _each(root)
    for root in (*(home / name for name in _CONDA_NAMES), *(Path(name) for name in conda)):
        yield root / "bin" / "python"
        yield from _each(root / "envs")
    for line in lines(home / ".conda" / "environments.txt"):
        yield Path(line, "bin", "python")
    for pattern in system:
        for match in sorted(Path("/").glob(pattern.lstrip("/"))):
            yield from _pythons(match)


_CONDA_NAMES = ("miniconda3", "anaconda3", "miniforge3", "mambaforge")
_NAME = re.compile(r"python(3(\.\d+t?)?)?")


def _pyenv_choice(environ: Mapping[str, str], pyenv: Path) -> Iterator[Path]:
    """What pyenv's shims would start outside of any project: PYENV_VERSION, else `version`."""
    chosen = environ.get("PYENV_VERSION", "").split(":")
    for name in chosen if chosen != [""] else lines(pyenv / "version"):
        yield pyenv / "versions" / name / "bin" / "python"


def _uv_folders(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    if environ.get("UV_PYTHON_INSTALL_DIR"):
        yield Path(environ["UV_PYTHON_INSTALL_DIR"])
    yield Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share", "uv", "python")


def _pythons(folder: Path) -> Iterator[Path]:
    """`python`, `python3`, then the numbered ones, newest first."""
    try:
        names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]
    except OSError:
        return
    names.sort(key=lambda name: (name.count("."), -minor(name)[1], len(name)))
    yield from (folder / name for name in names)


def _each(folder: Path) -> Iterator[Path]:
    """The Python of each environment in a folder, newest name first."""
    try:
        names = sorted(os.listdir(folder), key=_numbers, reverse=True)
    except OSError:
        return
    for name in names:
        yield folder / name / "bin" / "python"
        yield folder / name / "bin" / "python3"


def _describe(place: PythonHome, run: Runner, drivers: Drivers, home: Path) -> Interpreter:
    version = place.version(run)
    if version is None:
        return Interpreter(path=str(place.executable), version=None)
    folders = place.package_folders(version, home)
    return Interpreter(str(place.executable), version, frameworks(folders, drivers))


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def _numbers(name: str) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", name)], name
