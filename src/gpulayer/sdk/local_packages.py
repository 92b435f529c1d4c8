"""Which packages of a uv.lock lie in folders beside it: the project itself, members of its
workspace, packages by path. Read on this machine to know what must travel."""

from __future__ import annotations

import os
import tomllib

from gpulayer.contracts.requirement_files import LOCK, PROJECT


def are_in(name: str) -> bool:
    """Whether that file of a job is a uv.lock with such packages, or has one beside it. One that
    cannot be read has none: the worker says what is wrong with it."""
    if os.path.basename(name) not in (LOCK, PROJECT):
        return False
    try:
        with open(os.path.join(os.path.dirname(name), LOCK), "rb") as file:
            packages = tomllib.load(file).get("package") or ()
        sources = [package.get("source") or {} for package in packages]
        return any("editable" in source or "directory" in source for source in sources)
    except (OSError, ValueError, AttributeError, TypeError):
        return False
