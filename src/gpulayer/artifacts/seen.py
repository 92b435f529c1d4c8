"""What a folder held when it was last sent, so that an unchanged one need not be read.

A file is taken as unchanged while its inode, its size and both its times are: nothing sets the time
of an inode back. What changed within the last moments before it was read may have changed once more
in the same tick of the file system's clock, so it is not believed (as git's index does it).

Where the listing's witness is told again what it was told, and each file is as it was, nothing is
listed either: of ten thousand files the names are read and each is looked at once, and that is all.
"""

from __future__ import annotations

import hashlib
import os
import stat
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from gpulayer._version import __version__
from gpulayer.artifacts import ignoring, listing as listing_rules, seen_file, witness
from gpulayer.artifacts.listing import Found, Listing
from gpulayer.artifacts.seen_file import Rows
from gpulayer.artifacts.zip_layout import Entry
from gpulayer.contracts import limits, safe_paths
from gpulayer.contracts.ids import Digest

_TICK_NS = 2_000_000_000
"""The coarsest clock of a file system in use (FAT)."""
_FOLDERS = 64
_MODE = 0o170000 | stat.S_IXUSR
_HALF = 1 << 63


class Contents(NamedTuple):
    """A bundle's files in order, and the digest of the whole."""

    entries: tuple[Entry, ...]
    digest: Digest


class Same(NamedTuple):
    """A folder that is as it was, so what was said of it holds."""

    contents: Contents
    left_out: str


class Asked(NamedTuple):
    """Which listing is meant: of `key`, with paths below `folder`, and by which `rules`."""

    folder: str
    key: str
    rules: str


class Seen(Protocol):
    def same(self, asked: Asked) -> Same | None:
        """All of it, if all of it is as it was."""

    def look(self, asked: Asked, files: Sequence[Found]) -> Contents | None:
        """What these files held, if all of them are as they were."""

    def last(self, key: str) -> Contents | None:
        """What it held when it was kept, whatever it holds now."""

    def keep(self, asked: Asked, listing: Listing, contents: Contents) -> None:
        """Remember it. Never fails: it is only there to save time."""


class _Nothing:
    def same(self, asked: Asked) -> Same | None:
        return None

    def look(self, asked: Asked, files: Sequence[Found]) -> Contents | None:
        return None

    def last(self, key: str) -> Contents | None:
        return None

    def keep(self, asked: Asked, listing: Listing, contents: Contents) -> None:
        pass


NOTHING_SEEN = _Nothing()


class SeenFolders:
    """One file per folder in `place`; the oldest go. `now`: Unix time at which reading begins."""

    def __init__(self, place: str, now: float) -> None:
        self._place = place
        self._young_ns = int(now * 1e9) - _TICK_NS
        self._read: tuple[str, Rows | None] | None = None

    def same(self, asked: Asked) -> Same | None:
        rows = self._rows(asked.key)
        if rows is None or rows.rules != asked.rules + _code():
            return None
        found = witness.stats(asked.folder, rows.paths)
        if found is None or rows.stamps != _looked(found) or not witness.tells_again(rows.told):
            return None
        return Same(_contents(rows), rows.left_out)

    def look(self, asked: Asked, files: Sequence[Found]) -> Contents | None:
        rows = self._rows(asked.key)
        if rows is None or rows.paths != [found.path for found in files]:
            return None
        stamps = _columns([(one.size, _mode(one), *one.stamp) for one in files])
        return _contents(rows) if rows.stamps == stamps else None

    def last(self, key: str) -> Contents | None:
        rows = self._rows(key)
        return None if rows is None else _contents(rows)

    def keep(self, asked: Asked, listing: Listing, contents: Contents) -> None:
        files = listing.files
        rows = Rows(
            key=asked.key,
            rules=asked.rules + _code(),
            digest=contents.digest,
            left_out=listing.say_left_out(),
            told=listing.witness.told,
            paths=[found.path for found in files],
            crcs=array("q", [entry.crc for entry in contents.entries]),
            stamps=_columns([(one.size, _mode(one), *self._believed(one.stamp)) for one in files]),
        )
        self._read = None
        path = self._path(asked.key)
        fresh = f"{path}.{os.getpid()}"
        try:
            os.makedirs(self._place, 0o700, exist_ok=True)
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(seen_file.packed(rows))
            os.replace(fresh, path)
            for old in self._oldest():
                os.unlink(old)
        except OSError:
            pass  # a full disk, or another process that tidied up first

    def _believed(self, stamp: tuple[int, int, int]) -> tuple[int, int, int]:
        return stamp if max(stamp[1:]) < self._young_ns else (0, 0, 0)

    def _rows(self, key: str) -> Rows | None:
        if self._read is None or self._read[0] != key:
            try:
                with open(self._path(key), "rb") as file:
                    rows = seen_file.unpacked(file.read())
            except OSError:
                rows = None
            self._read = key, rows if rows is not None and rows.key == key else None
        return self._read[1]

    def _path(self, key: str) -> str:
        name = hashlib.sha256(os.fsencode(key)).hexdigest()[:32]
        return os.path.join(self._place, f"{name}.seen")

    def _oldest(self) -> Iterator[str]:
        paths = [entry.path for entry in os.scandir(self._place)]
        if len(paths) > _FOLDERS:
            paths.sort(key=lambda path: os.stat(path).st_mtime)
            yield from paths[:-_FOLDERS]


def _columns(rows: Sequence[tuple[int, ...]]) -> list[array[int]]:
    """Size, mode, inode and both times."""
    return [_column([row[at] for row in rows]) for at in range(5)]


def _looked(found: Sequence[os.stat_result]) -> list[array[int]]:
    return [
        _column([one.st_size for one in found]),
        _column([one.st_mode & _MODE for one in found]),
        _column([one.st_ino for one in found]),
        _column([one.st_mtime_ns for one in found]),
        _column([one.st_ctime_ns for one in found]),
    ]


def _column(numbers: list[int]) -> array[int]:
    try:
        return array("q", numbers)
    except OverflowError:  # an inode's number may be any of 64 bits
        return array("q", [(number + _HALF) % (2 * _HALF) - _HALF for number in numbers])


def _mode(found: Found) -> int:
    return stat.S_IFREG | (stat.S_IXUSR if found.executable else 0)


def _contents(rows: Rows) -> Contents:
    executable = [mode & stat.S_IXUSR != 0 for mode in rows.stamps[1]]
    entries = map(Entry._make, zip(rows.paths, rows.stamps[0], rows.crcs, executable, strict=True))
    return Contents(tuple(entries), Digest(rows.digest))


def _code() -> str:
    """Which code lists: what it finds is not believed by other code."""
    parts = [__version__]
    for module in (listing_rules, ignoring, safe_paths, limits):
        found = os.stat(module.__file__ or os.devnull)
        parts += [str(found.st_size), str(found.st_mtime_ns)]
    return " ".join(parts)
