"""Files by what is in them: a folder in which a file's name is the SHA-256 of its bytes.

    FOLDER/ab/abcdef...    whole and synced; written once, never changed
    FOLDER/.new/           being written; a leftover means that a writer died
    FOLDER/.damaged/       did not hold what its name says; kept for a look, never served
    FOLDER/.lock           held by who removes a file, against who is just told that it is here

A file appears by rename after its bytes are on the disk, so a name that exists is whole. All
methods may be called by any thread of any process at the same time, and are twice-safe. Memory
does not grow with a file's size.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from gpulayer.artifacts.on_disk import (
    CHUNK,
    NEW,
    SAFE,
    Asking,
    Stored,
    chunks_of,
    digest_of,
    mismatch,
    not_found,
    not_offered,
    open_regular,
    swept,
    write,
)
from gpulayer.artifacts.syncing import flush, make_folder, sync_folder
from gpulayer.contracts.ids import Digest
from gpulayer.contracts.named import DIGEST
from gpulayer.errors import StorageError

__all__ = ["CHUNK", "LocalArtifacts", "Stored"]


class LocalArtifacts:
    """The artifacts of one folder. Makes the folder, but not its parents: a deleted home stays so.

    Every method raises StorageError `disk-full`, `read-only` or `disk-error` for what the disk
    refuses, and then has stored nothing.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._names = itertools.count()
        for made in (self.folder, self.folder / ".new", self.folder / ".damaged"):
            with Asking(made):
                make_folder(made)

    def put_file(self, path: str | os.PathLike[str]) -> tuple[Digest, int]:
        """Keep a copy of a regular file; its last component may not be a symbolic link."""
        with open_regular(Path(path)) as source:
            return self.put_stream(chunks_of(source))

    def put_stream(
        self, chunks: Iterable[bytes], expected: str | None = None
    ) -> tuple[Digest, int]:
        """Keep what `chunks` yield. If that is not `expected`, or they raise, nothing is kept."""
        temporary = self._new_path()
        with Asking(temporary):
            descriptor = os.open(temporary, NEW, 0o400)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                digest, size = write(file, temporary, chunks)
                with Asking(temporary):
                    os.fsync(file.fileno())
            if expected is not None and digest != expected:
                raise mismatch(expected, digest)
            self._publish(temporary, digest)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return digest, size

    def take(self, path: str | os.PathLike[str], expected: str, found: str | None = None) -> int:
        """Keep a file, which is the store's from now on, whatever becomes of it; its size. It lies
        on the store's own disk, as an upload does: nothing is copied."""
        place = Path(path)
        try:
            with open_regular(place) as file, Asking(place):
                digest, size = digest_of(file, found)
                os.fchmod(file.fileno(), 0o400)
                os.fsync(file.fileno())
            if digest != expected:
                raise mismatch(expected, digest)
            self._publish(place, digest)
        finally:
            place.unlink(missing_ok=True)
        return size

    def put_many(self, files: Iterable[tuple[str, Iterable[bytes]]]) -> None:
        """Keep each under its announced digest. They are written, then reach the disk together,
        then appear: many small files cost one wait for the disk. One that is not what it was
        announced as is refused, and none appears then."""
        written: list[tuple[str, str]] = []  # plain text: a Path costs more than its file
        try:
            for digest, chunks in files:
                temporary = self._new_path()
                with Asking(temporary):
                    descriptor = os.open(temporary, NEW, 0o400)
                written.append((digest, str(temporary)))
                with open(descriptor, "wb", buffering=0) as file:
                    found, _ = write(file, temporary, chunks)
                if found != digest:
                    raise mismatch(digest, found)
            with Asking(self.folder):
                flush([new for _, new in written], self.folder)
                shelves = {digest[:2]: str(self._place(digest).parent) for digest, _ in written}
                for shelf in shelves.values():
                    make_folder(Path(shelf))
                with self._decided(fcntl.LOCK_SH):
                    while written:
                        digest, new = written.pop()
                        os.replace(new, f"{shelves[digest[:2]]}/{digest}")
                flush(shelves.values(), self.folder)
        finally:
            for _, new in written:
                Path(new).unlink(missing_ok=True)

    def open(self, digest: str) -> BufferedReader:
        """The bytes, read from the start and compared with their name before you get them.

        What does not match is moved away and raises StorageError `corrupt`.
        """
        path = self.path(digest)
        file = open_regular(path)
        try:
            with Asking(path):
                sound = hashlib.file_digest(file, "sha256").hexdigest() == digest
                file.seek(0)
            if not sound:
                raise self._damaged(path)
        except BaseException:
            file.close()
            raise
        return file

    def path(self, digest: str) -> Path:
        """Where it lies, not verified. Raises NotFoundError `artifact-not-found`."""
        path = self._place(digest)
        if not path.is_file():
            raise not_found(digest)
        return path

    def has(self, digest: str) -> bool:
        return self._place(digest).is_file()

    def knows(self, digests: Iterable[str]) -> bool:
        """Nobody but this disk is ever asked."""
        return True

    def link(self, digest: str) -> None:
        """There is no way to it but through us."""

    def offer(self, whose: str, size: int) -> None:
        """The same."""

    def arrived(self, whose: str, name: str, expected: str) -> int:
        raise not_offered(name)

    def touch(self, digest: str) -> bool:
        """Whether it is here; then it is as young as one that was put just now."""
        if not DIGEST.fullmatch(digest):
            return False
        with Asking(self.folder):
            try:
                with self._decided(fcntl.LOCK_SH):
                    os.utime(f"{self.folder}/{digest[:2]}/{digest}")
            except FileNotFoundError:
                return False
        return True

    def delete(self, digest: str, before: float = math.inf) -> int | None:
        """How many bytes that freed. None: it was not there, or was touched at `before` (Unix time)
        or later, and whoever was told that it is here may count on it. Who reads it reads to its
        end."""
        path = self._place(digest)
        with Asking(path), self._decided(fcntl.LOCK_EX):
            try:
                found = path.lstat()
                if found.st_mtime >= before:
                    return None
                path.unlink()
            except FileNotFoundError:
                return None
        return found.st_size

    def stored(self) -> Iterator[Stored]:
        """Every artifact, in order. One that goes meanwhile may be missing."""
        for shelf in sorted(self.folder.glob("[0-9a-f][0-9a-f]")):
            for path in sorted(shelf.iterdir()):
                try:
                    found = path.lstat()
                except FileNotFoundError:
                    continue
                yield Stored(Digest(path.name), found.st_size, found.st_mtime)

    def sweep(
        self, unfinished: float, damaged: float, *, dry_run: bool = False
    ) -> list[tuple[str, int]]:
        """Delete what writers that died left behind, and what was set aside, last touched before
        these Unix times. Name and bytes of each."""
        return [
            *swept(self.folder, ".new", unfinished, dry_run=dry_run),
            *swept(self.folder, ".damaged", damaged, dry_run=dry_run),
        ]

    def _new_path(self) -> Path:
        return self.folder / ".new" / f"{os.getpid()}-{id(self)}-{next(self._names)}"

    def _place(self, digest: str) -> Path:
        if not DIGEST.fullmatch(digest):
            raise not_found(digest)
        return self.folder / digest[:2] / digest

    def _publish(self, temporary: Path, digest: Digest) -> None:
        place = self._place(digest)
        with Asking(place):
            if make_folder(place.parent):
                sync_folder(self.folder)
            with self._decided(fcntl.LOCK_SH):
                os.replace(temporary, place)
            sync_folder(place.parent)

    @contextmanager
    def _decided(self, how: int) -> Iterator[None]:
        """Nobody removes a file while somebody is told that it is here, and the other way round:
        also where several planes share the folder."""
        lock = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | SAFE, 0o600)
        try:
            fcntl.flock(lock, how)
            yield
        finally:
            os.close(lock)

    def _damaged(self, path: Path) -> StorageError:
        with Asking(path):
            os.replace(path, self.folder / ".damaged" / path.name)
        return StorageError(
            "corrupt",
            f"Artifact {path.name[:12]} does not hold what its name says; it was set aside.",
            where=str(self.folder / ".damaged" / path.name),
            why="the disk or another program changed it",
        )
