"""What `uv export` tells of a uv.lock: exact versions, packages in folders, packages by address.

The lines of the export have no place that a person knows, so what is at fault is named by its line
in the lock.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpulayer.contracts.requirement_files import ALLOW, LOCK, Line
from gpulayer.errors import PreparationError
from gpulayer.worker.environments import files
from gpulayer.worker.environments.base import Base
from gpulayer.worker.environments.packages import Local

_FOLDER = re.compile(
    r"(?:-e\s+)?(?P<path>\.{1,2}(?:/.*?)?|(?:file:)?/.*?)(?:\s+;\s*(?P<marker>.+))?$"
)
_SHOWN = 100
_LOGIN = re.compile(r"://[^/@\s]+@")


def asked(given: files.Given, exported: Iterable[Line], base: Base, *, allows: bool) -> files.Asked:
    """Raises `environment-failed` with the line of the lock."""
    lock = files.toml(given, LOCK)
    by_path = {
        path: one for one in lock.get("package") or () if (path := _path_of(one.get("source")))
    }
    rest, locals_, addresses = [], [], []
    for line in exported:
        folder = _FOLDER.match(line.text)
        if folder is not None:
            one = by_path.get(posixpath.normpath(folder["path"]))
            if one is None:
                raise _refusal(given, folder["path"])
            if files.applies(folder["marker"], base):
                path = posixpath.normpath(folder["path"])
                locals_.append(Local(str(one["name"]), str(one.get("version") or "0"), path))
        elif " @ " in line.text:
            name, _, address = line.text.partition(" @ ")
            addresses.append(_address(given, name.strip(), address.strip(), allows=allows))
        else:
            rest.append(replace(line, number=0))
    found = files.of_lines(LOCK, rest)
    return replace(
        found,
        others=tuple(addresses),
        packages=tuple(locals_),
        python=str(lock.get("requires-python") or ""),
    )


def _address(given: files.Given, name: str, address: str, *, allows: bool) -> str:
    if allows:
        return f"{name} @ {address}"
    number = _line_of(given, f'name = "{name}"')
    shown = _LOGIN.sub("://****@", address)[:_SHOWN]
    raise PreparationError(
        "environment-failed",
        f"{LOCK}:{number}: {name} comes from an address, {shown}",
        why="where code comes from is for the machine that runs it to say; it lets addresses of a "
        f"lock pass where {ALLOW}=any is set for it",
        hint="gpulayer help requirements",
        details={"about": "address"},
    )


def _refusal(given: files.Given, path: str) -> PreparationError:
    number = _line_of(given, posixpath.basename(path))
    return files.refusal(
        f"{LOCK}:{number}: {path} cannot be installed",
        why="it is a file, or a place on one machine alone, and an environment stays when that is "
        "gone: have it on the worker's index",
    )


def _line_of(given: files.Given, text: str) -> int:
    """The first one in the lock with that; 1 if there is none."""
    lines = given.text(LOCK).splitlines()
    return next((number for number, line in enumerate(lines, 1) if text in line), 1)


def _path_of(source: Any) -> str:
    """Of a package in a folder, relative to the lock."""
    if not isinstance(source, Mapping):
        return ""
    path = source.get("editable") or source.get("directory")
    return posixpath.normpath(path) if isinstance(path, str) else ""
