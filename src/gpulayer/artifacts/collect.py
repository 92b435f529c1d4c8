"""What a job left, as artifacts: its output folder, and what its patterns name elsewhere.

What is left out is named, with the reason; see `hostile_folder` for what is never followed. Small
files travel many at a time.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpulayer.artifacts import hostile_folder, packs
from gpulayer.artifacts.hostile_folder import shown
from gpulayer.artifacts.ignoring import Rules
from gpulayer.artifacts.listing import never_source

MAX_FILES = 10_000
MAX_FILE_BYTES = 50 << 30
SMALL_BYTES = 1 << 20
"""A file up to here is read once, and sent with others."""

MAX_LISTED = 100_000
"""Files of a workspace that are looked at for what stays behind."""
LISTED = 20
_NAMED = 3
"""How many left-out files the note names; the rest is counted."""


class Shelf(Protocol):
    """Takes files. An `OSError` other than `ConnectionError` leaves out what it was given."""

    def put_artifact(self, path: str) -> str:
        """Its SHA-256."""

    def put_artifacts(self, files: Sequence[tuple[str, bytes]]) -> None:
        """(SHA-256, bytes) each; as many as one pack takes."""


@dataclass(frozen=True, slots=True)
class Collected:
    outputs: tuple[Mapping[str, Any], ...]
    """[{path, digest, size, executable}], sorted by path."""
    note: str
    """One sentence about what was left out, or nothing."""


def outputs(
    folder: str, shelf: Shelf, *, elsewhere: str = "", patterns: Sequence[str] = ()
) -> Collected:
    """Store every regular file below `folder`, and those below `elsewhere` that a pattern names or
    that are in a folder which one names. Of two files with one path, that in `folder` is kept."""
    found = _Found(shelf)
    found.take(folder, lambda path: True)
    if patterns:
        found.take(elsewhere, _Named(patterns))
    found.flush()
    found.kept.sort(key=lambda kept: str(kept["path"]))
    return Collected(tuple(found.kept), _note(found.left))


def left_behind(workspace: str, known: Collection[str]) -> Mapping[str, Any] | None:
    """{count, bytes, paths} of the files of a workspace that are not `known`, caches apart; None
    without any. The largest are named."""

    def is_new(path: str) -> bool:
        name = path.rstrip("/").rpartition("/")[2]
        return path not in known and never_source(name) is None

    left: list[tuple[int, str]] = []
    try:
        for path, descriptor, _ in hostile_folder.files(workspace, is_new):
            if descriptor is None:
                continue
            left.append((os.fstat(descriptor).st_size, shown(path)))
            os.close(descriptor)
            if len(left) >= MAX_LISTED:
                break
    except OSError:
        return None
    if not left:
        return None
    left.sort(reverse=True)
    return {
        "count": len(left),
        "bytes": sum(size for size, _ in left),
        "paths": [path for _, path in left[:LISTED]],
    }


class _Named:
    """Whether a pattern names a path or a folder above it, or may name something below it."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._rules = Rules("/" + pattern for pattern in patterns)
        self._starts = [_fixed_folders(pattern) for pattern in patterns]

    def __call__(self, path: str) -> bool:
        if not path.endswith("/"):
            return self._rules.fate(path) is True
        parts = path.rstrip("/").split("/")
        return any(
            all(part == fixed for part, fixed in zip(parts, start, strict=False))
            for start in self._starts
        )


def _fixed_folders(pattern: str) -> list[str]:
    """Its first parts, up to one with a wildcard in it."""
    fixed = []
    for part in pattern.split("/"):
        if any(mark in part for mark in "*?[\\"):
            break
        fixed.append(part)
    return fixed


@dataclass(slots=True)
class _Found:
    shelf: Shelf
    kept: list[Mapping[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    pack: list[tuple[Mapping[str, Any], bytes]] = field(default_factory=list)
    pack_bytes: int = 0

    def take(self, folder: str, wanted: Callable[[str], bool]) -> None:
        try:
            for path, descriptor, why in hostile_folder.files(folder, wanted):
                if descriptor is None:
                    self.left.append(f"{shown(path)} ({why})")
                    continue
                try:
                    self._store(path, descriptor)
                finally:
                    os.close(descriptor)
        except FileNotFoundError:
            pass
        except ConnectionError:
            raise
        except OSError:
            self.left.append("a whole folder (it was replaced by something else)")

    def flush(self) -> None:
        """Send the small files that wait for company."""
        pack, self.pack, self.pack_bytes = self.pack, [], 0
        if not pack:
            return
        try:
            self.shelf.put_artifacts([(str(one["digest"]), data) for one, data in pack])
            self.kept += [one for one, _ in pack]
        except ConnectionError:
            raise
        except OSError as error:
            self.left += [f"{shown(str(one['path']))} ({_said(error)})" for one, _ in pack]

    def _store(self, path: str, descriptor: int) -> None:
        if path in self.paths:
            return
        try:
            if len(self.paths) >= MAX_FILES:
                raise OSError(0, f"over {MAX_FILES} files")
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(0, "it was replaced while it was read")
            if found.st_size > MAX_FILE_BYTES:
                raise OSError(0, f"larger than {MAX_FILE_BYTES >> 30} GiB")
            self.paths.add(path)
            if found.st_size <= SMALL_BYTES:
                self._add_small(path, descriptor, found)
            else:
                self.kept.append(_large(path, descriptor, found, self.shelf))
        except ConnectionError:
            raise
        except OSError as error:
            self.left.append(f"{shown(path)} ({_said(error)})")

    def _add_small(self, path: str, descriptor: int, found: os.stat_result) -> None:
        data = _read(descriptor)
        if len(data) > SMALL_BYTES:  # it grew just now
            self.kept.append(_large(path, descriptor, found, self.shelf))
            return
        digest = hashlib.sha256(data).hexdigest()
        full = len(self.pack) >= packs.PACK_FILES or self.pack_bytes >= packs.PACK_BYTES - len(data)
        if full:
            self.flush()
        self.pack.append((_record(path, digest, len(data), found), data))
        self.pack_bytes += len(data)


def _read(descriptor: int) -> bytes:
    """Up to one byte more than a small file has."""
    parts, left = [], SMALL_BYTES + 1
    while left and (data := os.read(descriptor, left)):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def _large(path: str, descriptor: int, found: os.stat_result, shelf: Shelf) -> Mapping[str, Any]:
    # By its descriptor, which leads to the open file whatever its name means by now.
    digest = shelf.put_artifact(f"/dev/fd/{descriptor}")
    if os.fstat(descriptor).st_size != found.st_size:
        found = os.fstat(descriptor)  # it grew: once more, then it is as good as it gets
        digest = shelf.put_artifact(f"/dev/fd/{descriptor}")
    return _record(path, digest, found.st_size, found)


def _record(path: str, digest: str, size: int, found: os.stat_result) -> Mapping[str, Any]:
    executable = bool(found.st_mode & stat.S_IXUSR)
    return {"path": path, "digest": digest, "size": size, "executable": executable}


def _note(left: list[str]) -> str:
    if not left:
        return ""
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return f"not kept as output: {', '.join(left[:_NAMED])}{more}"


def _said(error: OSError) -> str:
    return error.strerror or str(error)
