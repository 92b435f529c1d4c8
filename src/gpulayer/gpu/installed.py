"""What a Python has installed, read from the names of its packages' records; nothing is started.

A folder is listed again when it has changed: whatever installs or removes a package writes there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpulayer.gpu.frameworks import distributions
from gpulayer.gpu.machine import Completed
from gpulayer.gpu.python_home import PythonHome

_KNOWN: dict[Path, tuple[tuple[int, int], Mapping[str, str]]] = {}
"""Folder -> its inode and time of change, and what was in it then."""


def version_and_folders(
    python: str, version: str | None, home: Path
) -> tuple[str | None, tuple[Path, ...] | None]:
    """The version (`version` where it is known already, else as files say it) and where its
    packages are. None for what no file says."""
    path = Path(python)
    if path.parent.name == "shims" and version:  # of pyenv
        path = path.parent.parent / "versions" / version / "bin" / "python"
    place = PythonHome.of(path)
    if place is None:
        return version, None
    version = version or place.version(lambda argv, seconds: Completed(None))
    return version, None if version is None else tuple(place.package_folders(version, home))


def packages(folders: Iterable[Path]) -> dict[str, str]:
    """Normalised name -> version, by name. An earlier folder hides a later one."""
    found: dict[str, str] = {}
    for folder in folders:
        found = {**_in(folder), **found}
    return dict(sorted(found.items()))


def stamp(folder: Path) -> tuple[int, int]:
    """Changes when something is installed or removed there; zeros where there is no folder."""
    try:
        seen = os.stat(folder)
    except OSError:
        return 0, 0
    return seen.st_ino, seen.st_mtime_ns


def _in(folder: Path) -> Mapping[str, str]:
    now = stamp(folder)
    known = _KNOWN.get(folder)
    if known is None or known[0] != now:
        known = _KNOWN[folder] = now, dict(distributions(folder))
    return known[1]
