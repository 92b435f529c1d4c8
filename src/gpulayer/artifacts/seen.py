"""What a folder held when it was last sent, so that an unchanged one need not be read.

A file is taken as unchanged while its inode, its size and both its times are: nothing sets the time
of an inode back. What changed within the last moments before it was read may have changed once more
in the same tick of the file system's clock, so it is not believed (as git's index does it).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from gpulayer.artifacts.listing import Found
from gpulayer.artifacts.zip_layout import Entry
from gpulayer.contracts.ids import Digest

_TICK_NS = 2_000_000_000
"""The coarsest clock of a file system in use (FAT)."""
_FOLDERS = 64


class Contents(NamedTuple):
    """A bundle's files in order, and the digest of the whole."""

    entries: tuple[Entry, ...]
    digest: Digest


class Seen(Protocol):
    def look(self, folder: str, files: Sequence[Found]) -> Contents | None:
        """What it held, if all of it is as it was."""

    def last(self, folder: str) -> Contents | None:
        """What it held when it was kept, whatever it holds now."""

    def keep(self, folder: str, files: Sequence[Found], contents: Contents) -> None:
        """Remember it. Never fails: it is only there to save time."""


class _Nothing:
    def look(self, folder: str, files: Sequence[Found]) -> Contents | None:
        return None

    def last(self, folder: str) -> Contents | None:
        return None

    def keep(self, folder: str, files: Sequence[Found], contents: Contents) -> None:
        pass


NOTHING_SEEN = _Nothing()


class SeenFolders:
    """One file per folder in `place`; the oldest go. `now`: Unix time at which reading begins."""

    def __init__(self, place: str, now: float) -> None:
        self._place = place
        self._young_ns = int(now * 1e9) - _TICK_NS

    def look(self, folder: str, files: Sequence[Found]) -> Contents | None:
        rows = self._rows(folder)
        if rows is None or len(rows["files"]) != len(files):
            return None
        for row, found in zip(rows["files"], files, strict=True):
            if row[:4] != [found.path, found.size, found.executable, list(found.stamp)]:
                return None
        return _contents(rows)

    def last(self, folder: str) -> Contents | None:
        rows = self._rows(folder)
        return None if rows is None else _contents(rows)

    def keep(self, folder: str, files: Sequence[Found], contents: Contents) -> None:
        rows = [
            [*found[:3], self._believed(found.stamp), entry.crc]
            for found, entry in zip(files, contents.entries, strict=True)
        ]
        text = json.dumps({"folder": folder, "digest": contents.digest, "files": rows})
        path = self._path(folder)
        fresh = f"{path}.{os.getpid()}"
        try:
            os.makedirs(self._place, 0o700, exist_ok=True)
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(text)
            os.replace(fresh, path)
            for old in self._oldest():
                os.unlink(old)
        except OSError:
            pass  # a full disk, or another process that tidied up first

    def _believed(self, stamp: tuple[int, int, int]) -> Sequence[int]:
        return stamp if max(stamp[1:]) < self._young_ns else (0, 0, 0)

    def _rows(self, folder: str) -> dict[str, Any] | None:
        try:
            with open(self._path(folder)) as file:
                rows = json.load(file)
            return rows if rows["folder"] == folder and _contents(rows) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _path(self, folder: str) -> str:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        return os.path.join(self._place, f"{name}.json")

    def _oldest(self) -> Iterator[str]:
        paths = [entry.path for entry in os.scandir(self._place)]
        if len(paths) > _FOLDERS:
            paths.sort(key=lambda path: os.stat(path).st_mtime)
            yield from paths[:-_FOLDERS]


def _contents(rows: dict[str, Any]) -> Contents:
    entries = tuple(
        Entry(path, size, crc, executable) for path, size, executable, _, crc in rows["files"]
    )
    return Contents(entries, Digest(rows["digest"]))
