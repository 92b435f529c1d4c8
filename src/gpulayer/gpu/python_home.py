"""One Python: where it belongs, which version it is, where its packages lie.

A version is read from files where one says it (pyvenv.cfg, conda's record, the name of the folder
as pyenv and uv choose it), else the Python is started once (`-I -S`), and remembered by
(path, inode, time of change).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpulayer.gpu.machine import Runner


@dataclass(frozen=True, slots=True)
class PythonHome:
    """An executable and the environment that it belongs to."""

    executable: Path
    """What to start: a virtual environment's own name, else the real file behind all links."""
    prefix: Path
    config: Mapping[str, str] | None = None
    """The keys of `pyvenv.cfg` (PEP 405), if this is a virtual environment."""

    @classmethod
    def of(cls, path: Path) -> PythonHome | None:
        """Where a Python belongs; None for shims, stubs and what is not there."""
        path = Path(os.path.abspath(path))
        real = path.resolve()
        if not _REAL_NAME.fullmatch(real.name) or not _is_program(real):
            return None
        prefix = path.parent.parent
        config = lines(prefix / "pyvenv.cfg")
        if not config:
            return cls(real, real.parent.parent)
        executable = prefix / "bin" / "python"
        pairs = (line.partition("=") for line in config)
        return cls(
            executable if executable.exists() else path,
            prefix,
            {key.strip().lower(): value.strip() for key, _, value in pairs},
        )

    @property
    def only_a_tool(self) -> bool:
        """`uv tool` and pipx leave a receipt; `uvx` builds inside uv's cache, tagged as one."""
        receipts = ("uv-receipt.toml", "pipx_metadata.json")
        return any((self.prefix / name).exists() for name in receipts) or any(
            (parent / "CACHEDIR.TAG").exists() for parent in self.prefix.parents
        )

    def version(self, run: Runner) -> str | None:
        """`3.12.7`; None for what does not answer like a Python 3."""
        config = self.config or {}
        for text in (config.get("version_info"), config.get("version")):
            if text and (match := _FULL.match(text)):
                return match.group(0)
        return _version_by_name(self.prefix) or _version_by_starting(self.executable, run)

    def package_folders(self, version: str, home: Path) -> list[Path]:
        """Where `site` (docs.python.org/3/library/site.html) would look, in its order."""
        name = "python{}.{}".format(*minor(version))
        own = [self.prefix / lib / name / "site-packages" for lib in ("lib", "lib64")]
        if self.config is None:
            return _system_folders(self.prefix, name, home)
        if self.config.get("include-system-site-packages", "").lower() != "true":
            return own
        base = Path(self.config.get("home", "/usr/bin")).parent
        return [*own, *_system_folders(base, name, home)]


def lines(path: Path) -> list[str]:
    """The lines of a file that say something; none where there is no file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines() if line.strip()]


def minor(text: str) -> tuple[int, int]:
    """`3.12.7` and `python3.12` -> (3, 12); without a number (0, 0)."""
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


_REAL_NAME = re.compile(r"(python|pypy)\d*(\.\d+)*t?")
_FULL = re.compile(r"3\.\d+\.\d+")
_ASK = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_STARTED: dict[tuple[str, int, int], str | None] = {}


def _is_program(path: Path) -> bool:
    """Machine code that may be run: ELF, or Mach-O of one or several architectures."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError:
        return False
    kinds = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
    return magic in kinds and os.access(path, os.X_OK)


def _version_by_name(prefix: Path) -> str | None:
    for record in sorted(prefix.glob("conda-meta/python-3.*.json")):
        if match := re.match(r"python-(3\.\d+\.\d+)-", record.name):
            return match.group(1)
    match = re.fullmatch(r"(?:cpython-)?(3\.\d+\.\d+)(?:[+-].*)?", prefix.name)
    return match.group(1) if match else None


def _version_by_starting(executable: Path, run: Runner) -> str | None:
    try:
        facts = executable.stat()
    except OSError:
        return None
    key = (str(executable), facts.st_ino, facts.st_mtime_ns)
    if key not in _STARTED:
        answer = run([str(executable), "-I", "-S", "-c", _ASK], 10.0)
        match = _FULL.fullmatch(answer.out.strip())
        _STARTED[key] = match.group(0) if match else None
    return _STARTED[key]


def _system_folders(prefix: Path, name: str, home: Path) -> list[Path]:
    """Of a Python that is no virtual environment; Debian keeps its packages elsewhere."""
    folders = [home / ".local" / "lib" / name / "site-packages"]
    folders += [prefix / lib / name / "site-packages" for lib in ("lib", "lib64")]
    if prefix == Path("/usr"):
        folders += [Path("/usr/local/lib", name, "dist-packages")]
        folders += [Path("/usr/lib/python3/dist-packages")]
    return folders
