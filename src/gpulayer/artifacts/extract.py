"""Unpacks a source bundle from anybody into a fresh folder, or leaves nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from gpulayer.artifacts import strict_zip
from gpulayer.artifacts.on_disk import write_whole
from gpulayer.artifacts.strict_zip import Member
from gpulayer.errors import RefusedError

PIECE = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def extract_bundle(
    archive: str | os.PathLike[str] | BinaryIO,
    target: str | os.PathLike[str],
    digest: str | None = None,
) -> list[str]:
    """Unpack into `target`, which is made (0700) or is empty; the paths of the files.

    With `digest`, the archive's SHA-256 is compared before anything else. Raises RefusedError
    `digest-mismatch`, `bad-bundle` for an archive that is not exactly what `build_source_bundle`
    could have made (times and modes apart), `not-allowed` for a target that is not empty; OSError
    of the disk. In each case `target` is as it was before.
    """
    if isinstance(archive, str | os.PathLike):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        with open(os.open(archive, flags), "rb") as file:
            return extract_bundle(file, target, digest)
    if digest is not None:
        _require(digest, archive)
    found = strict_zip.members(archive)
    with _fresh(os.fspath(target)) as folder:
        _unpack(archive, found, folder)
    return [member.path for member in found]


@contextmanager
def _fresh(target: str) -> Iterator[int]:
    """A descriptor of the empty folder, which is emptied again when something raises."""
    try:
        os.mkdir(target, 0o700)
        is_ours = True
    except FileExistsError:
        is_ours = False
    folder = os.open(target, _FOLDER)
    try:
        if not is_ours and os.listdir(folder):
            raise RefusedError(
                "not-allowed", "a bundle is unpacked into an empty folder alone", where=target
            )
        try:
            yield folder
        except BaseException:
            for name in os.listdir(folder):
                _remove(name, folder)
            if is_ours:
                os.rmdir(target)
            raise
    finally:
        os.close(folder)


def _remove(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        shutil.rmtree(name, dir_fd=folder)


def _require(digest: str, file: BinaryIO) -> None:
    seen = hashlib.sha256()
    file.seek(0)
    while data := file.read(PIECE):
        seen.update(data)
    found = seen.hexdigest()
    if found != digest:
        raise RefusedError(
            "digest-mismatch",
            "the bytes of the bundle are not those that were announced",
            why=f"announced {digest[:12]}, received {found[:12]}",
        )


def _unpack(file: BinaryIO, found: list[Member], top: int) -> None:
    """In the order of the folders, so that each is made and opened once, from its parent's own
    descriptor."""
    opened: list[tuple[str, int]] = []
    try:
        for member in found:
            *parents, name = member.path.split("/")
            shared = 0
            while shared < min(len(parents), len(opened)) and opened[shared][0] == parents[shared]:
                shared += 1
            while len(opened) > shared:
                os.close(opened.pop()[1])
            for part in parents[shared:]:
                above = opened[-1][1] if opened else top
                os.mkdir(part, 0o700, dir_fd=above)
                opened.append((part, os.open(part, _FOLDER, dir_fd=above)))
            _write(file, member, name, opened[-1][1] if opened else top)
    finally:
        for _, descriptor in opened:
            os.close(descriptor)


def _write(file: BinaryIO, member: Member, name: str, folder: int) -> None:
    mode = 0o755 if member.executable else 0o644
    target = os.open(name, _NEW, mode, dir_fd=folder)
    try:
        os.fchmod(target, mode)  # whatever the umask is: equal bundles are equal trees
        file.seek(member.start)
        left, crc = member.size, 0
        while left:
            data = file.read(min(left, PIECE))
            if not data:
                strict_zip.refuse("it ends too early", member.path)
            crc = zlib.crc32(data, crc)
            left -= len(data)
            write_whole(target, data)
    finally:
        os.close(target)
    if crc != member.crc:
        strict_zip.refuse("its bytes are not those that its checksum says", member.path)
