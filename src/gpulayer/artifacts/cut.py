"""A folder as it is at one moment, stored while somebody may be writing in it.

    look     names, sizes and times of what is in it; nothing is read
    pin      hold open what a look saw, so that it can be read whatever its names mean by then
    store    what was pinned, as artifacts; RestlessError where it is no longer what it was

A file whose bytes were stored before is neither opened nor read again. Where very many are new they
are not held open, and the folder must stay as it is until all is stored.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpulayer.artifacts import hostile_folder, packs
from gpulayer.artifacts.collect import SMALL_BYTES, Shelf
from gpulayer.artifacts.hostile_folder import shown
from gpulayer.contracts import limits
from gpulayer.contracts.checkpoint_files import stays_inside
from gpulayer.contracts.safe_paths import path_fault

PINNED = 256
"""Most files that are held open at once."""

_NAMED = 3
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class RestlessError(Exception):
    """The folder changed while it was stored."""


class Stamp(NamedTuple):
    """What changes with the bytes of a file, or with which file it is."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    executable: bool

    @property
    def is_renamed(self) -> bool:
        """Whether something was done with it as a whole since its last byte was written: it was
        given its name, most likely."""
        return self.ctime_ns > self.mtime_ns


@dataclass(frozen=True, slots=True)
class Look:
    files: Mapping[str, Stamp]
    links: Mapping[str, str]
    left_out: tuple[str, ...] = field(compare=False)
    """What is in it and cannot be kept, and why."""

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.links)

    @property
    def note(self) -> str:
        if not self.left_out:
            return ""
        more = len(self.left_out) - _NAMED
        names = ", ".join(self.left_out[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"left out: {names}"


def look(folder: str, without: Collection[str] = ()) -> Look:
    """What is in it, in the order of its names; nothing where there is no folder. `without`: paths
    that are left out, since they are written in all the time. Raises OSError where it cannot be
    looked at, or holds too much."""
    files: dict[str, Stamp] = {}
    links: dict[str, str] = {}
    left: list[str] = []
    for path, descriptor, why in _entries(folder):
        if len(files) + len(links) >= limits.CHECKPOINT_FILES:
            if descriptor is not None:
                os.close(descriptor)
            raise OSError(0, f"it holds over {limits.CHECKPOINT_FILES:,} files")
        if descriptor is None:
            link = _link(folder, path) if why == hostile_folder.LINK else ""
            if link:
                links[path] = link
            else:
                left.append(f"{shown(path)} ({why})")
            continue
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if path in without:
            left.append(f"{shown(path)} (open for writing all the time)")
        elif fault := path_fault(path):
            left.append(f"{shown(path)} (its name {fault[0]})")
        elif stat.S_ISREG(found.st_mode):
            files[path] = _stamp(found)
    return Look(files, links, tuple(left))


def pin(folder: str, seen: Look, known: Mapping[Stamp, str], without: Collection[str] = ()) -> Pins:
    """Hold what `seen` saw. `known`: digests of what was stored before; `without` as it was looked
    at. Raises RestlessError where the folder is no longer as it was seen."""
    pins = Pins(folder, seen, known, frozenset(without))
    try:
        new = [path for path, stamp in seen.files.items() if stamp not in known]
        if len(new) <= PINNED:
            for path in new:
                pins.held[path] = _opened(folder, path)
        if look(folder, without) != seen:
            raise RestlessError
    except OSError as error:
        pins.close()
        raise RestlessError from error
    except BaseException:
        pins.close()
        raise
    return pins


@dataclass(slots=True)
class Pins:
    """Close it after use."""

    folder: str
    seen: Look
    known: Mapping[Stamp, str]
    without: frozenset[str]
    held: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Pins:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self.held:
            os.close(self.held.popitem()[1])

    @property
    def is_whole(self) -> bool:
        """Whether all that is new is held: then its names may go on to mean something else."""
        return all(path in self.held or stamp in self.known for path, stamp in self._files)

    @property
    def is_unchanged(self) -> bool:
        """Whether nobody has written in what is held."""
        return all(
            _is_same(os.fstat(held), self.seen.files[path]) for path, held in self.held.items()
        )

    def store(self, shelf: Shelf) -> tuple[list[Mapping[str, Any]], dict[Stamp, str]]:
        """The files as `checkpoint_files` lists them, and their digests by stamp. Raises
        RestlessError, and OSError of the folder or of the shelf."""
        storing = _Storing(shelf)
        is_whole = self.is_whole
        for path, stamp in self._files:
            digest = self.known.get(stamp)
            if digest is None and path in self.held:
                digest = storing.stored(self.held[path], stamp)
            elif digest is None:
                descriptor = _opened(self.folder, path)
                try:
                    digest = storing.stored(descriptor, stamp)
                finally:
                    os.close(descriptor)
            storing.add(path, stamp, digest)
        storing.flush()
        if not is_whole and look(self.folder, self.without) != self.seen:
            raise RestlessError
        links = [{"path": path, "link": link} for path, link in self.seen.links.items()]
        return storing.files + links, storing.digests

    @property
    def _files(self) -> Collection[tuple[str, Stamp]]:
        return self.seen.files.items()


def _entries(folder: str) -> Iterator[hostile_folder.Found]:
    try:
        yield from hostile_folder.files(folder)
    except FileNotFoundError:
        return


def _link(folder: str, path: str) -> str:
    """Where it leads, if that is in the folder."""
    try:
        link = os.readlink(os.path.join(folder, path))
        link.encode()
    except (OSError, UnicodeEncodeError):
        return ""
    return link if path_fault(path) is None and stays_inside(path, link) else ""


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        bool(found.st_mode & stat.S_IXUSR),
    )


def _opened(folder: str, path: str) -> int:
    """Each part from the one above it; no link is followed. Raises RestlessError, OSError."""
    *parts, name = path.split("/")
    at = os.open(folder, _FOLDER)
    try:
        for part in parts:
            inner = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        return os.open(name, _FILE, dir_fd=at)
    except FileNotFoundError as error:
        raise RestlessError from error
    finally:
        os.close(at)


def _is_same(found: os.stat_result, seen: Stamp) -> bool:
    """Whether it has the same bytes; it may have lost its name."""
    now = _stamp(found)
    return now._replace(ctime_ns=seen.ctime_ns) == seen


@dataclass(slots=True)
class _Storing:
    """Small files travel many at a time."""

    shelf: Shelf
    files: list[Mapping[str, Any]] = field(default_factory=list)
    digests: dict[Stamp, str] = field(default_factory=dict)
    pack: list[tuple[str, bytes]] = field(default_factory=list)
    pack_bytes: int = 0

    def stored(self, descriptor: int, seen: Stamp) -> str:
        if not _is_same(os.fstat(descriptor), seen):
            raise RestlessError
        # By its descriptor, which leads to the open file whatever its name means by now.
        is_large = seen.size > SMALL_BYTES
        whole = f"/dev/fd/{descriptor}"
        digest = self.shelf.put_artifact(whole) if is_large else self._small(descriptor, seen.size)
        if not _is_same(os.fstat(descriptor), seen):
            raise RestlessError
        return digest

    def add(self, path: str, seen: Stamp, digest: str) -> None:
        self.digests[seen] = digest
        self.files.append(
            {
                "path": path,
                "digest": digest,
                "size": seen.size,
                "executable": seen.executable,
                "mtime_ns": seen.mtime_ns,
            }
        )

    def flush(self) -> None:
        pack, self.pack, self.pack_bytes = self.pack, [], 0
        if pack:
            self.shelf.put_artifacts(pack)

    def _small(self, descriptor: int, size: int) -> str:
        data, rest = b"", size + 1
        while rest and (piece := os.pread(descriptor, rest, len(data))):
            data, rest = data + piece, rest - len(piece)
        if len(data) != size:
            raise RestlessError
        digest = hashlib.sha256(data).hexdigest()
        if len(self.pack) >= packs.PACK_FILES or self.pack_bytes + size > packs.PACK_BYTES:
            self.flush()
        self.pack.append((digest, data))
        self.pack_bytes += size
        return digest
