"""What the file of a job asks for: requirements to be solved, or a locked set of exact versions.

    requirements.txt   its lines; with hashes, a locked set
    pylock.toml        a locked set (PEP 751)
    uv.lock            a locked set, as `uv export --frozen` tells it, with the project beside it
    pyproject.toml     the uv.lock beside it; where there is none, its dependencies

Of a locked set only names, versions, markers and hashes count: where packages come from is for the
machine. Reading is apart from understanding, for the bytes are the key and mostly all that is
needed.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpulayer.contracts.requirement_files import ALLOW, LOCK, PROJECT, Line, is_pylock, lines_of
from gpulayer.contracts.requirement_lines import MEND, requirement_fault
from gpulayer.errors import PreparationError
from gpulayer.worker.environments.base import Base
from gpulayer.worker.environments.packages import Local

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MOST_BYTES = 32 << 20
_NEVER = re.compile(
    r"-(e|r|c)\b|--(editable|requirement|constraint)\b|(\S+\s*@\s*)?file:|[./~]|[^-\s:]*/"
)
"""What names something on a disk: an environment outlives the folder of its job."""


@dataclass(frozen=True, slots=True)
class Given:
    """A file of a job, as bytes."""

    name: str
    """As the job calls it."""
    content: Mapping[str, bytes]
    """By base name; a lock has its project with it."""

    @property
    def base(self) -> str:
        return posixpath.basename(self.name)

    @property
    def digests(self) -> dict[str, str]:
        """What of it is a part of a key."""
        return {name: hashlib.sha256(data).hexdigest() for name, data in self.content.items()}

    @property
    def is_uv_lock(self) -> bool:
        return LOCK in self.content

    def text(self, name: str = "") -> str:
        try:
            return self.content[name or self.base].decode()
        except UnicodeDecodeError:
            raise refusal(f"{self.name} is not text") from None


@dataclass(frozen=True, slots=True)
class Asked:
    requirements: tuple[str, ...] = ()
    pins: tuple[Pin, ...] = ()
    others: tuple[str, ...] = ()
    """Lines that this worker's policy lets through to the installer."""
    packages: tuple[Local, ...] = ()
    """Those that lie in the job's folder, and are used from there."""
    python: str = ""
    """Versions of Python that it is for."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One exact version."""

    need: Requirement
    hashes: tuple[str, ...]

    @property
    def line(self) -> str:
        bare = f"{self.need.name}{self.need.specifier}"
        return " ".join((bare, *(f"--hash={one}" for one in self.hashes)))


def read(folder: str, name: str) -> Given:
    """Raises `environment-failed`."""
    base, beside = posixpath.basename(name), os.path.join(folder, posixpath.dirname(name))
    wanted = [base]
    if base in (LOCK, PROJECT):
        has_lock = os.path.lexists(os.path.join(beside, LOCK))
        wanted = [PROJECT, LOCK] if has_lock or base == LOCK else [PROJECT]
    content: dict[str, bytes] = {}
    for one in wanted:
        try:
            content[one] = _content(os.path.join(beside, one))
        except OSError as error:
            there = posixpath.join(posixpath.dirname(name), one)
            raise refusal(
                f"{there} cannot be read: {error.strerror or error}",
                why="environment.file is a path in the job's folder, or in the source sent with it",
            ) from None
    return Given(name, content)


def _content(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(0, "it is not a file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(0, f"it has more than {MOST_BYTES >> 20} MB")
    return content


def understood(given: Given, base: Base, *, allows: bool = False) -> Asked:
    """Of a file without a uv.lock; that one is exported first. Raises `environment-failed`, with
    the line where one is at fault."""
    if is_pylock(given.base):
        return _pylock(given, base, allows=allows)
    if given.base == PROJECT:
        return _project(given)
    return of_lines(given.name, lines_of(given.text()), allows=allows)


def of_lines(name: str, lines: Iterable[Line], *, allows: bool = False) -> Asked:
    found = list(lines)
    is_hashed = any(line.hashes for line in found)
    requirements, pins, others = [], [], []
    for line in found:
        wrong = requirement_fault(line.text)
        if wrong is not None and allows and not _NEVER.match(line.text):
            others.append(" ".join((line.text, *(f"--hash={one}" for one in line.hashes))))
        elif wrong is not None:
            raise refusal(f"{name}:{line.number} {wrong}", why=_why(line.text))
        elif is_hashed:
            pins.append(_pin(name, line))
        else:
            requirements.append(line.text)
    return Asked(tuple(requirements), tuple(pins), tuple(others))


def applies(marker: str | None, base: Base) -> bool:
    from packaging.markers import InvalidMarker, Marker

    try:
        return not marker or Marker(marker).evaluate({**base.markers, "extra": ""})
    except InvalidMarker:
        return True


def refusal(message: str, why: str = "") -> PreparationError:
    return PreparationError(
        "environment-failed", message, why=why, hint="gpulayer help requirements"
    )


def _why(text: str) -> str:
    if _NEVER.match(text):
        return f"{MEND}; what lies in a folder is gone with it, and its environment stays"
    return f"{MEND}; a worker lets it pass where {ALLOW}=any is set for it"


def _pin(name: str, line: Line) -> Pin:
    from packaging.requirements import Requirement

    need = Requirement(line.text)
    exact = [one for one in need.specifier if one.operator in ("==", "===")]
    if len(exact) != 1 or "*" in exact[0].version or not line.hashes:
        raise refusal(
            f"{name}:{line.number} is {line.text!r}, without its exact version or its hash",
            why="a file with hashes is a lock: each of its lines has a version and hashes",
        )
    return Pin(need, line.hashes)


def _pylock(given: Given, base: Base, *, allows: bool) -> Asked:
    from packaging.requirements import InvalidRequirement, Requirement

    data = toml(given, given.base)
    if str(data.get("lock-version", "")).partition(".")[0] != "1":
        raise refusal(f"{given.name}: its lock-version is not 1.0 (PEP 751)")
    pins, others, packages = [], [], []
    for number, one in enumerate(_tables(given, data.get("packages", []))):
        name, where = str(one.get("name", "")), f"{given.name}: packages[{number}]"
        marker = f" ; {one['marker']}" if one.get("marker") else ""
        path, address = (one.get("directory") or {}).get("path"), _address(one)
        if path and applies(one.get("marker"), base):
            packages.append(Local(name, str(one.get("version") or "0"), posixpath.normpath(path)))
        elif address and allows:
            others.append(f"{name} @ {address}{marker}")
        if path or (address and allows):
            continue
        if not one.get("version") or any(key in one for key in ("vcs", "archive")):
            raise refusal(
                f"{where} ({name}) is an address or a path instead of a package's version",
                why=_why("" if address else "./"),
            )
        files = [*_tables(given, one.get("wheels", [])), *_tables(given, [one.get("sdist") or {}])]
        hashes = [f"{k}:{v}" for file in files for k, v in dict(file.get("hashes") or {}).items()]
        try:
            need = Requirement(f"{name}=={one['version']}{marker}")
        except InvalidRequirement as error:
            raise refusal(f"{where} ({name}) cannot be read", why=str(error)) from None
        pins.append(Pin(need, tuple(sorted(hashes))))
    python = str(data.get("requires-python") or "")
    return Asked((), tuple(pins), tuple(others), tuple(packages), python)


def _address(one: Mapping[str, Any]) -> str:
    """Of a package of a pylock.toml that comes from one."""
    vcs, archive = one.get("vcs") or {}, one.get("archive") or {}
    if vcs.get("type") == "git" and vcs.get("url"):
        return f"git+{vcs['url']}@{vcs.get('commit-id') or 'HEAD'}"
    return str(archive.get("url") or "")


def _project(given: Given) -> Asked:
    data = toml(given, PROJECT)
    project = data.get("project") or {}
    needs = project.get("dependencies", []) if isinstance(project, dict) else None
    if not isinstance(needs, list):
        raise refusal(f"{given.name}: project.dependencies is not a list")
    tool = data.get("tool")
    uv = tool.get("uv") if isinstance(tool, dict) else None
    uv = uv if isinstance(uv, dict) else {}
    for number, need in enumerate(needs):
        where, wrong = f"{given.name}: project.dependencies[{number}]", requirement_fault(str(need))
        if wrong is not None:
            raise refusal(f"{where} {wrong}", why=_why(str(need)))
        if source := _source(str(need), uv.get("sources")):
            raise refusal(
                f"{where} is {str(need)!r}, which tool.uv.sources takes from {source}",
                why=f"that is for a lock to say: `uv lock` writes {LOCK} beside it; of a "
                "workspace, name the lock of its root",
            )
    is_package = uv.get("package", "build-system" in data)
    own = Local(str(project.get("name") or "project"), str(project.get("version") or "0"), ".")
    python = str(project.get("requires-python") or "")
    return Asked(tuple(map(str, needs)), packages=(own,) if is_package else (), python=python)


def _source(need: str, sources: Any) -> str:
    """Where a project takes a package from, other than an index."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    name = canonicalize_name(Requirement(need).name)
    for key, found in (sources if isinstance(sources, dict) else {}).items():
        if canonicalize_name(key) == name:
            for one in found if isinstance(found, list) else [found]:
                for kind in ("workspace", "path", "git", "url"):
                    if isinstance(one, dict) and one.get(kind):
                        return "its workspace" if kind == "workspace" else f"{kind} {one[kind]!r}"
    return ""


def toml(given: Given, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(given.text(name))
    except tomllib.TOMLDecodeError as error:
        raise refusal(f"{name} cannot be read", why=str(error)) from None


def _tables(given: Given, value: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise refusal(f"{given.name} is not a lock file (PEP 751)")
    return value
