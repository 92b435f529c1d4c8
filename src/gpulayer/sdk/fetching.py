"""Artifacts into files: whole, compared with their digest, or not there at all.

A file appears by one step after its last byte was compared (link(2)), so nothing half fetched is
ever found under its name, and nothing that exists is overwritten. Memory does not grow with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from gpulayer.api.transfers import Client, download
from gpulayer.artifacts.digesting import Checked
from gpulayer.clock import SystemIds
from gpulayer.contracts.safe_paths import path_fault
from gpulayer.errors import NotFoundError, RefusedError


@dataclass(frozen=True, slots=True)
class Wanted:
    digest: str
    target: Path
    executable: bool = False


def inside(folder: Path, name: str) -> Path:
    """Where an output of that name goes, whatever the worker said and whatever lies there."""
    fault = path_fault(name)
    if fault is not None:
        raise RefusedError("unsafe-path", f"the output {name!r} {fault[0]}")
    target = folder
    for part in PurePosixPath(name).parts[:-1]:
        target /= part
        if target.is_symlink():
            raise RefusedError(
                "unsafe-path", f"{target} is a link, and the output {name!r} would go through it"
            )
    return folder / name


def fetch(transport: Client, wanted: Sequence[Wanted]) -> None:
    """All of them, or none. Raises `already-there`, `digest-mismatch`, what the plane says."""
    for one in wanted:
        if os.path.lexists(one.target):
            raise _taken(one.target)
    with _undone() as done:
        for one in wanted:
            _make_folders(one.target.parent, done)
            _fetch(transport, one)
            done.append(one.target)


def fetch_output(
    transport: Client,
    job_id: str,
    outputs: Sequence[Mapping[str, Any]],
    path: str,
    target: str | os.PathLike[str],
) -> None:
    """That file of a job's as `target`."""
    found = [one for one in outputs if f"/{one['path']}".endswith(f"/{path}")]
    if not found:
        what = f"{job_id} left no file '{path}'"
        raise NotFoundError("artifact-not-found", what, hint=f"gpulayer status {job_id}")
    one = min(found, key=lambda one: len(one["path"]))
    fetch(transport, [Wanted(one["digest"], Path(target), bool(one.get("executable")))])


def copy(transport: Client, digest: str, sink: BinaryIO) -> None:
    """Into an open file that can be begun anew, compared at the end."""
    checked = Checked(sink)
    checked.seek(0)
    download(transport, digest, checked)  # type: ignore[arg-type]
    found = checked.digest() or ""
    if found != digest:
        raise RefusedError(
            "digest-mismatch",
            f"artifact {digest[:12]} arrived with other bytes, so it was not kept",
            why=f"their digest begins with {found[:12]}",
        )


def _fetch(transport: Client, wanted: Wanted) -> None:
    token = SystemIds().token(8)
    part = wanted.target.with_name(f".{wanted.target.name[:200]}.{token}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    mode = 0o777 if wanted.executable else 0o666
    try:
        with open(os.open(part, flags, mode), "wb") as sink:
            copy(transport, wanted.digest, sink)
        try:
            os.link(part, wanted.target)
        except FileExistsError:
            raise _taken(wanted.target) from None
        except OSError:  # a file system without links
            if os.path.lexists(wanted.target):
                raise _taken(wanted.target) from None
            os.rename(part, wanted.target)
    finally:
        part.unlink(missing_ok=True)


def _make_folders(folder: Path, done: list[Path]) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        done.append(one)


@contextmanager
def _undone() -> Iterator[list[Path]]:
    """Takes back what was made, the newest first, when something raises."""
    done: list[Path] = []
    try:
        yield done
    except BaseException:
        for path in reversed(done):
            try:
                path.rmdir() if path.is_dir() else path.unlink()
            except OSError:
                pass  # somebody else put something there meanwhile
        raise


def _taken(target: Path) -> RefusedError:
    return RefusedError(
        "already-there",
        f"{target} exists already",
        why="nothing is overwritten, so nothing was fetched",
    )
