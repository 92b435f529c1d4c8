"""One environment, made from nothing: an overlay on its base, an installer, a proof.

uv does not see what lies behind a `.pth` file, so it is told to leave out every distribution of the
base. What it then installs may need another version of one than the base has, or an extra's
packages: each need that is not met is added, its name is no longer left out, and uv solves again.
pip sees the base by itself; it is the installer where there is no uv (or one older than 0.9.8).

A locked set is not solved at all: what the base does not have in that very version is installed
without its dependencies, by its hashes, and nothing may be lacking then.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpulayer.contracts.requirement_files import ALLOW, is_pylock, lines_of
from gpulayer.errors import PreparationError, StorageError
from gpulayer.worker.environments import files, locked, packages, settings, words
from gpulayer.worker.environments.base import Base
from gpulayer.worker.environments.building import Ended, Patience, run

if TYPE_CHECKING:
    from packaging.requirements import Requirement

ROUNDS = 8
"""Of solving: each leaves out fewer names than the one before."""
_SIGNALS = 128
"""Exit codes above it stand for a signal."""
FindUv = Callable[[Mapping[str, str]], str | None]
# Not quiet: pip tells what is in conflict as it tells its progress.
_PIP = (
    "install", "--no-input", "--no-user", "--disable-pip-version-check",
    "--no-warn-script-location", "--progress-bar", "off",
)  # fmt: skip
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
        given: files.Given | None = None,
    ) -> None:
        self.python = python_of(folder)
        self.others: list[str] = []
        """What the base has in another version than the lock, in words."""
        self.packages: tuple[packages.Local, ...] = ()
        """Those of the job's folder, which are not installed."""
        self._folder = folder
        self._base = base
        self._requirements = list(requirements)
        self._environ = {**environ, "UV_PYTHON_DOWNLOADS": "never", "PYTHONDONTWRITEBYTECODE": "1"}
        self._patience = patience
        self._find_uv = find_uv
        self._given = given
        self._locked: Mapping[str, str] = {}
        """Of the lock: normalised name -> its version, as a requirement."""
        self._lines: tuple[str, ...] = ()
        """For the installer alone, by the policy of this worker."""

    def make(self) -> str:
        """Build it in the empty folder; which installer did. Raises `environment-failed`, with the
        installer's own words, `disk-full`, OSError, and what `patience` does."""
        uv = self._find_uv(self._environ)
        pins = self._understand(uv)
        self._overlay()
        if pins or self._is_lock:
            self._exactly(pins, uv)
        if not (self._requirements or self._lines):
            return "uv" if uv else "pip"
        if uv and self._by_uv(uv):
            return "uv"
        self._by_pip()
        return "pip"

    def _understand(self, uv: str | None) -> tuple[files.Pin, ...]:
        """Its file: the locked set; the rest is noted."""
        if self._given is None:
            return ()
        allows = self._environ.get(ALLOW) == "any"
        asked = (
            self._exported(self._given, uv, allows=allows)
            if self._given.is_uv_lock
            else files.understood(self._given, self._base, allows=allows)
        )
        from gpulayer.worker.environments import needs

        if asked.python and not needs.is_for(asked.python, self._base):
            raise files.refusal(
                f"{self._given.name} is for Python {asked.python}, and the job's is "
                f"{self._base.version}",
            )
        self._requirements += asked.requirements
        self._lines, self.packages = asked.others, asked.packages
        return asked.pins

    def _exported(self, given: files.Given, uv: str | None, *, allows: bool) -> files.Asked:
        """What uv says is in its own lock, from a copy of the bytes that are the key."""
        if uv is None:
            raise files.refusal(
                f"{given.name} can be read by uv alone, which is not there",
                why="pip install 'gpulayer[envs]' on the worker brings it; a lock that any "
                "installer reads: uv export --format pylock.toml -o pylock.toml",
            )
        project = os.path.join(self._folder, "project")
        os.mkdir(project, 0o700)
        for name, data in given.content.items():
            with open(os.path.join(project, name), "wb") as file:
                file.write(data)
        told = "locked.txt"
        self._done(
            run(
                [
                    uv, "export", "--quiet", "--frozen", "--offline",
                    "--no-header", "--no-annotate", "--project", project,
                    "--python", self._base.python, "--output-file", told,
                ],
                self._folder, self._environ, self._patience,
            ),
            f"{given.name} cannot be used",
        )  # fmt: skip
        with open(os.path.join(self._folder, told), encoding="utf-8") as file:
            lines = list(lines_of(file.read()))
        return locked.asked(given, lines, self._base, allows=allows)

    def _exactly(self, pins: Sequence[files.Pin], uv: str | None) -> None:
        from packaging.utils import canonicalize_name

        from gpulayer.worker.environments import needs

        wanted = [pin.need for pin in pins]
        places, self.others = needs.lacking(wanted, self._base)
        said = [line for line in self._lines if line.startswith("-")]
        if places:
            lines = [*said, *(pins[place].line for place in places)]
            options = ["--no-deps", "--requirement", self._listed("locked.txt", lines)]
            if all(pins[place].hashes for place in places):
                options.append("--require-hashes")
            self._install([*self._by(uv), *options])
        if len(said) < len(self._lines):  # what comes from an address has no hash
            listed = self._listed("addresses.txt", self._lines)
            self._install([*self._by(uv), "--no-deps", "--requirement", listed])
        self._lines = tuple(said) if self._requirements else ()
        if wrong := needs.faults(wanted, needs.found_in([self._site()]), self._base):
            raise PreparationError(
                "environment-failed",
                "its lock does not hold together with what is there",
                why="\n".join(wrong[: words.LINES]),
                hint="gpulayer help requirements",
            )
        self._locked = {
            canonicalize_name(need.name): f"{need.name}{need.specifier}" for need in wanted
        }

    @property
    def _is_lock(self) -> bool:
        """Whether its file has exact versions, be they none."""
        given = self._given
        return given is not None and (given.is_uv_lock or is_pylock(given.base))

    def _by(self, uv: str | None) -> list[str]:
        """The line of an installer, up to what it shall install."""
        if uv:
            return [uv, "pip", "install", "--quiet", "--no-progress", "--python", self.python]
        return [*self._pip(), *_PIP]

    def _install(self, command: Sequence[str]) -> None:
        self._done(run(command, self._folder, self._environ, self._patience))

    def _overlay(self) -> None:
        venv = ["-I", "-m", "venv", "--without-pip", self._folder]
        self._done(run([self._base.python, *venv], self._folder, self._environ, self._patience))
        lines = [packages.LINE]
        lines += [f"import site; site.addsitedir({site!r})\n" for site in self._base.sites]
        with open(os.path.join(self._site(), "_gpulayer_base.pth"), "w", encoding="utf-8") as file:
            file.writelines(lines)

    def _site(self) -> str:
        """Called by the name and version of that Python, which are not always those of the base."""
        return glob.glob(os.path.join(glob.escape(self._folder), "lib", "*", "site-packages"))[0]

    def _by_uv(self, uv: str) -> bool:
        """False: this uv cannot leave names out."""
        from packaging.utils import canonicalize_name

        wanted = [*self._lines, *self._requirements]
        left_out = {*self._base.distributions, *self._locked}
        for _ in range(ROUNDS):
            options = ["--excludes", self._listed("excludes.txt", sorted(left_out))]
            ended = run(
                [
                    *self._by(uv), *(options if left_out else ()),
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
            if any(canonicalize_name(need.name) in self._locked for need in unmet):
                break  # the lock is not solved again
            wanted += [str(need) for need in unmet]
            left_out -= {canonicalize_name(need.name) for need in unmet}
        raise self._conflict(unmet)

    def _by_pip(self) -> None:
        options = [
            "--requirement",
            self._listed("requirements.txt", [*self._lines, *self._requirements]),
        ]
        if self._locked:
            options += ["--constraint", self._listed("locked.txt", list(self._locked.values()))]
        self._install([*self._by(None), *options])
        if unmet := self._unmet():
            raise self._conflict(unmet)

    def _pip(self) -> list[str]:
        if "pip" in self._base.distributions:
            return [self.python, "-I", "-m", "pip"]
        if importlib.util.find_spec("pip") is not None:
            return [sys.executable, "-I", "-m", "pip", "--python", self.python]
        raise PreparationError(
            "environment-failed",
            "there is neither uv nor pip to install what it requires",
            why="uv is not on the worker's PATH, and neither Python has pip",
            hint="pip install 'gpulayer[envs]'",
        )

    def _unmet(self) -> list[Requirement]:
        from gpulayer.worker.environments import needs  # not at an agent's start: few build

        return needs.unmet(self._requirements, needs.found_in([self._site()]), self._base)

    def _listed(self, name: str, lines: Sequence[str]) -> str:
        path = os.path.join(self._folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        return path

    def _done(self, ended: Ended, what: str = "what it requires could not be installed") -> None:
        if ended.code == 0:
            return
        if words.is_full(ended.output):
            raise StorageError("disk-full", "the disk is full: its environment has no room")
        told = "\n".join(words.meaningful(ended.output, settings.secrets(self._environ)))
        if ended.code < 0 or ended.code > _SIGNALS:
            what = "its installer was killed"
            told = told or "it said nothing; a machine without memory left kills such a process"
        elif words.is_unreached(ended.output):
            what = f"{what}: where its packages come from does not answer"
        raise PreparationError(
            "environment-failed",
            what,
            why=told or f"the installer ended with {ended.code} and said nothing",
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
