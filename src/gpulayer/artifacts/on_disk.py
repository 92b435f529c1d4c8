"""What both stores do on a disk: write with a digest, read no links, say what was refused."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gpulayer.artifacts.digesting import Digesting
from gpulayer.contracts.ids import Digest
from gpulayer.errors import GPULayerError, NotFoundError, RefusedError, StorageError, UsageError

CHUNK = 1 << 20
SAFE = os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE


class Stored(NamedTuple):
    """One artifact as it lies here."""

    digest: Digest
    size: int
    touched_at: float
    """When it was put, or somebody was told that it is here (Unix time)."""


class Asking:
    """Turn what the system says about a path into our errors."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise _refused(self._path, error) from error


def _refused(path: Path, error: OSError) -> GPULayerError:
    slug, message = "disk-error", "The disk refused to read or write an artifact."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        slug, message = "disk-full", "The disk is full, so the artifact was not kept."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR):
        slug, message = "read-only", "The folder of the artifacts cannot be used."
    return StorageError(slug, message, where=str(path), why=error.strerror or str(error))


def open_regular(path: Path) -> BufferedReader:
    try:
        # Not blocking: opening a FIFO would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | SAFE)
    except FileNotFoundError as error:
        raise NotFoundError(
            "file-not-found", "The file does not exist.", where=str(path)
        ) from error
    except OSError as error:
        why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or ""
        raise RefusedError("not-allowed", "Cannot read it.", where=str(path), why=why) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RefusedError("not-allowed", "It is not a regular file.", where=str(path))
    return open(descriptor, "rb")


def chunks_of(file: BufferedReader) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def write_whole(descriptor: int, data: bytes) -> None:
    """One write(2) may take a part only."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def write(file: BinaryIO, path: Path, chunks: Iterable[bytes]) -> tuple[Digest, int]:
    seen, size = Digesting(), 0
    for chunk in chunks:
        seen.update(chunk)
        size += len(chunk)
        with Asking(path):
            rest = memoryview(chunk)
            while rest:
                rest = rest[file.write(rest) :]
    return Digest(seen.hexdigest()), size


def digest_of(file: BinaryIO, known: str | None = None) -> tuple[Digest, int]:
    """And its size; the file is at its end then. What is known is not made again."""
    if known is None:
        known = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    return Digest(known), file.seek(0, os.SEEK_END)


def swept(
    folder: Path, part: str, before: float, *, dry_run: bool = False
) -> Iterator[tuple[str, int]]:
    """Delete what was last touched before that Unix time in `folder/part`: name and bytes."""
    for path in sorted((folder / part).iterdir()):
        try:
            found = path.lstat()
            if found.st_mtime < before:
                if not dry_run:
                    path.unlink()
                yield f"{part}/{path.name}", found.st_size
        except FileNotFoundError:
            continue


def not_found(digest: str) -> NotFoundError:
    return NotFoundError(
        "artifact-not-found", f"There is no artifact {digest[:12]}.", hint="gpulayer ps -a"
    )


def not_offered(name: str) -> UsageError:
    return UsageError("usage", f"no upload {name[:60]!r} was offered to whoever tells of it")


def mismatch(expected: str, digest: str) -> RefusedError:
    return RefusedError(
        "digest-mismatch",
        "The bytes are not those that were announced, so nothing was kept.",
        why=f"announced {expected[:12]}, received {digest[:12]}",
    )
