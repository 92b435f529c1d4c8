"""Packages that are not installed: the job's own project, members of its workspace, packages by
path. They travel as source, and a job finds their modules in its folder, as with an editable
installation.

An environment is shared by jobs of many folders, so it names none of them: it has a line that adds
the folders of `VARIABLE` to the path, and each job sets that for itself (`steps.own_packages`).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpulayer.errors import PreparationError

VARIABLE = "GPULAYER_SOURCES"
LINE = (
    "import os, sys; sys.path += [path for path in "
    f"os.environ.get({VARIABLE!r}, '').split(os.pathsep) if path]\n"
)
"""For a .pth file, before what lies behind it."""
PURE = (
    "uv_build", "hatchling", "setuptools", "flit_core", "flit", "poetry.core", "poetry", "pdm",
)  # fmt: skip
"""Build backends whose packages are Python alone unless they say otherwise; by their first words.
Others compile something, or are not known."""
_SETUP_COMPILES = re.compile(rb"ext_modules|cffi_modules|rust_extensions|cythonize")


@dataclass(frozen=True, slots=True)
class Local:
    """One of them, as a lock names it."""

    name: str
    version: str
    path: str
    """Relative to the folder of the lock, as POSIX writes it."""

    def to_json(self) -> list[str]:
        return [self.name, self.version, self.path]


@dataclass(frozen=True, slots=True)
class Project:
    """What its own files say of it."""

    roots: tuple[str, ...]
    """Folders in which its modules are."""
    scripts: Mapping[str, str]
    """Program -> `module:function`."""
    entry_points: Mapping[str, Mapping[str, str]]
    """Group -> name -> what it means, its programs among them."""


def project_of(local: Local, folder: str) -> Project:
    """Of the package in that folder. Raises `environment-failed` where its modules are not simply
    there: it is compiled, or built in a way that is not known here."""
    about = _about(local, folder)
    if wrong := _compiles(about, folder):
        raise refusal(local, f"{wrong}, which is more than Python files in a folder")
    roots = [os.path.normpath(os.path.join(folder, root)) for root in _roots(about, folder)]
    if outside := [root for root in roots if os.path.relpath(root, folder).startswith(os.pardir)]:
        raise refusal(local, f"its modules are in {outside[0]}, outside of its folder")
    if not any(_has_modules(root) for root in roots):
        raise refusal(local, f"no module is in {', '.join(roots)}")
    project = about.get("project") or {}
    scripts = {str(name): str(target) for name, target in (project.get("scripts") or {}).items()}
    points = {
        str(group): {str(name): str(target) for name, target in found.items()}
        for group, found in (project.get("entry-points") or {}).items()
    }
    return Project(
        tuple(roots), scripts, {**points, **({"console_scripts": scripts} if scripts else {})}
    )


def refusal(local: Local, why: str) -> PreparationError:
    return PreparationError(
        "environment-failed",
        f"{local.name}, the package in {local.path}, cannot be used from its folder",
        why=f"{why}; build a wheel of it and have it on the worker's index",
        hint="gpulayer help requirements",
    )


def _about(local: Local, folder: str) -> dict[str, Any]:
    """Its pyproject.toml; {} of one that has a setup.py alone."""
    try:
        with open(os.path.join(folder, "pyproject.toml"), "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        if os.path.isfile(os.path.join(folder, "setup.py")):
            return {}
        raise refusal(local, "its folder is not there, or has no pyproject.toml") from None
    except (OSError, ValueError) as error:
        raise refusal(local, f"its pyproject.toml cannot be read: {error}") from None


def _compiles(about: Mapping[str, Any], folder: str) -> str:
    build = about.get("build-system") or {}
    backend = str(build.get("build-backend") or "setuptools.build_meta")
    if build.get("backend-path") or not _is_among(backend, PURE):
        return f"it is built by {backend}"
    tool = about.get("tool") or {}
    for names in (
        ("setuptools", "ext-modules"), ("poetry", "build"), ("hatch", "build", "hooks", "custom"),
        ("hatch", "build", "targets", "wheel", "hooks"), ("pdm", "build", "custom-hook"),
        ("pdm", "build", "run-setuptools"), ("cibuildwheel",),
    ):  # fmt: skip
        if _at(tool, names):
            return f"it has tool.{'.'.join(names)}"
    if _is_among(backend, ("setuptools",)):
        try:
            with open(os.path.join(folder, "setup.py"), "rb") as file:
                return "its setup.py compiles" if _SETUP_COMPILES.search(file.read()) else ""
        except OSError:
            pass
    return ""


def _roots(about: Mapping[str, Any], folder: str) -> Iterator[str]:
    """Where it says that its modules are; else `src` or the folder itself, as its builder does."""
    tool = about.get("tool") or {}
    if _is_among(str(_at(about, ("build-system", "build-backend")) or ""), ("uv_build",)):
        yield str(_at(tool, ("uv", "build-backend", "module-root")) or _usual(folder))
        return
    said = [
        *_texts(_at(tool, ("setuptools", "packages", "find", "where"))),
        *_texts(_at(tool, ("setuptools", "package-dir", ""))),
        *_texts(_at(tool, ("hatch", "build", "dev-mode-dirs"))),
        *map(
            os.path.dirname, _texts(_at(tool, ("hatch", "build", "targets", "wheel", "packages")))
        ),
        *(str(one.get("from") or "") for one in _dicts(_at(tool, ("poetry", "packages")))),
        *_texts(_at(tool, ("pdm", "build", "package-dir"))),
    ]
    yield from dict.fromkeys(said) or [_usual(folder)]


def _usual(folder: str) -> str:
    return "src" if _has_modules(os.path.join(folder, "src")) else "."


def _has_modules(folder: str) -> bool:
    """Also one of a namespace, which is a folder without a file of its own."""
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not entry.name.startswith((".", "_"))]
    except OSError:
        return False
    return any(
        entry.is_dir() or (entry.name.endswith(".py") and entry.name != "setup.py")
        for entry in entries
    )


def _is_among(backend: str, names: Sequence[str]) -> bool:
    return any(backend == name or backend.startswith((name + ".", name + ":")) for name in names)


def _at(table: Any, names: Sequence[str]) -> Any:
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    return table


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(one) for one in value or ()]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value or () if isinstance(one, dict)]
