"""Artifacts that this worker has fetched, so that the next task needs no network.

    FOLDER/<digest>      whole, compared with its name; read only
    FOLDER/.<digest>     on its way, or what came of it before the plane was lost

The least recently used go when there are too many bytes, and those that nobody has used for long
(`contracts.keeping`). A file in here has one writer, which
renames it into place; the tasks get reflinks of it where the file system can make them, else hard
links, which cost nothing either. As root nothing would stop a job from writing through a hard link,
so root's tasks get copies. What was changed all the same is noticed by its size or time, and
fetched again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from gpulayer.clock import Clock
from gpulayer.contracts import keeping
from gpulayer.errors import GPULayerError, RefusedError
from gpulayer.worker import room

_FICLONE = 0x40049409
"""ioctl_ficlonerange(2); Linux alone."""
_TRIES = 5

Fetch = Callable[[str, str], str | None]
"""(digest, path of the file to make, or to go on with); the digest of what was written, if whoever
wrote it knows"""


class ArtifactCache:
    """Any number of threads may share it."""

    def __init__(
        self, folder: str, fetch: Fetch, clock: Clock, most_bytes: int | None = None
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._fetch = fetch
        self._most = most_bytes
        self._fetching: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._room = threading.Lock()
        self._sound: dict[str, tuple[int, int, int]] = {}
        """Digest -> inode, size and time that it had when it was compared."""

    def open(self, digest: str, fetch: Fetch | None = None) -> BinaryIO:
        """The bytes, from the start. Raises what fetching raises, `digest-mismatch`, OSError.
        `fetch`: from somewhere else."""
        for _ in range(_TRIES):
            path = self._at(digest, fetch or self._fetch)
            try:
                return open(path, "rb")
            except FileNotFoundError:
                continue  # it had to make room for another one in this moment
        raise OSError(0, "the cache is too small for what the tasks of this moment need")

    def stage(self, digest: str, target: str, fetch: Fetch | None = None) -> None:
        """The same bytes as a new file at `target`."""
        with self.open(digest, fetch) as source:
            if _reflinked(source, target):
                return
            if os.geteuid():
                try:
                    os.link(os.path.join(self._folder, digest), target)
                    return
                except OSError:
                    pass  # another file system, or it has just made room
            with open(target, "xb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)

    def tidy(self) -> None:
        """Let go of what no task has used for long, and of what a fetch that was killed left."""
        now = self._clock.now()
        with self._room:
            try:
                entries = list(os.scandir(self._folder))
            except FileNotFoundError:
                return  # nothing was ever fetched, or the home was deleted
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if entry.name.startswith("."):
                    is_over = now - found.st_mtime >= keeping.UPLOAD_SECONDS
                else:
                    is_over = now - found.st_atime >= keeping.CACHE_SECONDS
                if is_over:
                    self._drop(entry.name)

    def held(self) -> tuple[int, int]:
        """How many, and their bytes."""
        try:
            sizes = [entry.stat(follow_symlinks=False).st_size for entry in self._entries()]
        except FileNotFoundError:
            return 0, 0  # nothing was ever fetched, or one has just gone
        return len(sizes), sum(sizes)

    def _at(self, digest: str, fetch: Fetch) -> str:
        path = os.path.join(self._folder, digest)
        with self._fetching[digest]:
            if not self._is_sound(digest, path):
                self._bring(digest, path, fetch)
            with self._room:
                self._use(path)
                self._make_room(digest)
        return path

    def _is_sound(self, digest: str, path: str) -> bool:
        try:
            stamp = _stamp(path)
            if self._sound.get(digest) != stamp:
                if _digest_of(path) != digest:
                    os.unlink(path)
                    return False
                self._sound[digest] = stamp
        except FileNotFoundError:
            return False
        return True

    def _bring(self, digest: str, path: str, fetch: Fetch, is_last: bool = False) -> None:
        os.makedirs(self._folder, 0o700, exist_ok=True)
        fresh = os.path.join(self._folder, f".{digest}")
        goes_on = os.path.exists(fresh)
        try:
            found = fetch(digest, fresh) or _digest_of(fresh)
            if found != digest:
                raise RefusedError(
                    "digest-mismatch",
                    f"artifact {digest[:12]} arrived with other bytes",
                    why=f"their digest begins with {found[:12]}",
                )
            os.chmod(fresh, 0o400)
            os.replace(fresh, path)
            self._sound[digest] = _stamp(path)
        except ConnectionError:
            raise  # the next try goes on from there
        except BaseException as error:
            Path(fresh).unlink(missing_ok=True)
            is_other = isinstance(error, RefusedError) and error.code == "digest-mismatch"
            may_mend = goes_on or (is_other and fetch is self._fetch)
            if is_last or not (may_mend and isinstance(error, GPULayerError)):
                raise
            # What an earlier try had left may have been the fault, or the way it came by.
            self._bring(digest, path, fetch, is_last=True)

    def _use(self, path: str) -> None:
        """The time of its last reading says when it was used last; that of its bytes stays."""
        try:
            found = os.stat(path)
            # In order of use, also where the clock was set back.
            order = max(self._newest(), found.st_atime_ns) + 1
            newest = max(order, int(self._clock.now() * 1e9))
            os.utime(path, ns=(newest, found.st_mtime_ns))
        except FileNotFoundError:
            pass

    def _newest(self) -> int:
        return max((entry.stat().st_atime_ns for entry in os.scandir(self._folder)), default=0)

    def _make_room(self, keep: str) -> None:
        found = [(e.stat().st_atime_ns, e.stat().st_size, e.name) for e in self._entries()]
        size = sum(held for _, held, _ in found)
        for _, held, name in sorted(found):
            if size <= self._limit():
                return
            if name != keep:
                self._drop(name)
                size -= held

    def _drop(self, name: str) -> None:
        Path(self._folder, name).unlink(missing_ok=True)
        self._sound.pop(name, None)

    def _entries(self) -> list[os.DirEntry[str]]:
        return [entry for entry in os.scandir(self._folder) if not entry.name.startswith(".")]

    def _limit(self) -> int:
        if self._most is None:
            self._most = room.at_most(self._folder, keeping.CACHE_BYTES, keeping.CACHE_DISK_PART)
        return self._most


def _reflinked(source: BinaryIO, target: str) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.ioctl(made, _FICLONE, source.fileno())
    except OSError:
        os.unlink(target)
        return False
    finally:
        os.close(made)
    return True


def _stamp(path: str) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def _digest_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
