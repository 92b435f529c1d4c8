"""One environment, made from nothing: an overlay on its base, an installer, a proof.

uv does not see what lies behind a `.pth` file, so it is told to leave out every distribution of the
base. What it then installs may need another version of one than the base has, or an extra's
packages: each need that is not met is added, its name is no longer left out, and uv solves again.
pip sees the base by itself; it is the installer where there is no uv (or one older than 0.9.8).
"""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpulayer.errors import PreparationError, StorageError
from gpulayer.worker.environments import settings, words
from gpulayer.worker.environments.base import Base
from gpulayer.worker.environments.building import Ended, Patience, run

if TYPE_CHECKING:
    from packaging.requirements import Requirement

ROUNDS = 8
"""Of solving: each leaves out fewer names than the one before."""
FindUv = Callable[[Mapping[str, str]], str | None]
_OLD_UV = "unexpected argument '--excludes'"


class Making:
    """One use. `python` is the new environment's own, once `make` has returned."""

    def __init__(
        self,
        folder: str,
        base: Base,
        requirements: Sequence[str],
        environ: Mapping[str, str],
        patience: Patience,
        find_uv: FindUv,
    ) -> None:
        self.python = python_of(folder)
        self._folder = folder
        self._base = base
        self._requirements = list(requirements)
        self._environ = {**environ, "UV_PYTHON_DOWNLOADS": "never", "PYTHONDONTWRITEBYTECODE": "1"}
        self._patience = patience
        self._find_uv = find_uv

    def make(self) -> str:
        """Build it in the empty folder; which installer did. Raises `environment-failed`, with the
        installer's own words, `disk-full`, OSError, and what `patience` does."""
        self._overlay()
        uv = self._find_uv(self._environ)
        if uv and self._by_uv(uv):
            return "uv"
        self._by_pip()
        return "pip"

    def _overlay(self) -> None:
        venv = ["-I", "-m", "venv", "--without-pip", self._folder]
        self._done(run([self._base.python, *venv], self._folder, self._environ, self._patience))
        lines = [f"import site; site.addsitedir({site!r})\n" for site in self._base.sites]
        with open(os.path.join(self._site(), "_gpulayer_base.pth"), "w", encoding="utf-8") as file:
            file.writelines(lines)

    def _site(self) -> str:
        """Called by the name and version of that Python, which are not always those of the base."""
        return glob.glob(os.path.join(glob.escape(self._folder), "lib", "*", "site-packages"))[0]

    def _by_uv(self, uv: str) -> bool:
        """False: this uv cannot leave names out."""
        from packaging.utils import canonicalize_name

        wanted, left_out = list(self._requirements), set(self._base.distributions)
        for _ in range(ROUNDS):
            options = ["--excludes", self._listed("excludes.txt", sorted(left_out))]
            ended = run(
                [
                    uv, "pip", "install", "--quiet", "--no-progress", "--python", self.python,
                    *(options if left_out else ()),
                    "--requirement", self._listed("requirements.txt", wanted),
                ],
                self._folder, self._environ, self._patience,
            )  # fmt: skip
            if ended.code == 2 and _OLD_UV in ended.output:
                return False
            self._done(ended)
            unmet = self._unmet()
            if not unmet:
                return True
            wanted += [str(need) for need in unmet]
            left_out -= {canonicalize_name(need.name) for need in unmet}
        raise self._conflict(unmet)

    def _by_pip(self) -> None:
        options = [
            "install", "--quiet", "--no-input", "--no-user", "--disable-pip-version-check",
            "--no-warn-script-location", "--progress-bar", "off",
            "--requirement", self._listed("requirements.txt", self._requirements),
        ]  # fmt: skip
        if "pip" in self._base.distributions:
            pip = [self.python, "-I", "-m", "pip"]
        elif importlib.util.find_spec("pip") is not None:
            pip = [sys.executable, "-I", "-m", "pip", "--python", self.python]
        else:
            raise PreparationError(
                "environment-failed",
                "there is neither uv nor pip to install what it requires",
                why="uv is not on the worker's PATH, and neither Python has pip",
                hint="pip install 'gpulayer[envs]'",
            )
        self._done(run([*pip, *options], self._folder, self._environ, self._patience))
        if unmet := self._unmet():
            raise self._conflict(unmet)

    def _unmet(self) -> list[Requirement]:
        from gpulayer.worker.environments import needs  # not at an agent's start: few build

        return needs.unmet(self._requirements, needs.found_in([self._site()]), self._base)

    def _listed(self, name: str, lines: Sequence[str]) -> str:
        path = os.path.join(self._folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        return path

    def _done(self, ended: Ended) -> None:
        if ended.code == 0:
            return
        if words.is_full(ended.output):
            raise StorageError("disk-full", "the disk is full: its environment has no room")
        told = words.meaningful(ended.output, settings.secrets(self._environ))
        raise PreparationError(
            "environment-failed",
            "what it requires could not be installed",
            why="\n".join(told) or f"the installer ended with {ended.code} and said nothing",
        )

    def _conflict(self, unmet: Sequence[Requirement]) -> PreparationError:
        return PreparationError(
            "environment-failed",
            "what it requires does not go together",
            why="\n".join(f"{need} is needed and not met" for need in unmet[: words.LINES]),
        )


def python_of(folder: str) -> str:
    return os.path.join(folder, "bin", "python")


def find_uv(environ: Mapping[str, str]) -> str | None:
    """The one that came with us (the extra `envs`), else the first on the PATH."""
    ours = os.path.join(os.path.dirname(sys.executable), "uv")
    return ours if os.access(ours, os.X_OK) else shutil.which("uv", path=environ.get("PATH"))
