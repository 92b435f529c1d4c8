"""Reads the directory of an archive from somebody else, or refuses it whole.

Python's own reader mends what it gets: it rewrites names, cuts them at a NUL, takes the last of two
twins, finds an archive in the middle of other bytes. Two readers that mend differently see
different files, so nothing is mended here. What is taken is what `zip_layout` writes; times, modes
and the system that an entry comes from may be another writer's.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple, NoReturn

from gpulayer.artifacts import zip_layout as layout
from gpulayer.contracts import limits
from gpulayer.contracts.safe_paths import path_fault
from gpulayer.errors import RefusedError


class Member(NamedTuple):
    """A file of the archive: `size` bytes from `start`, whose CRC-32 is to be `crc`."""

    path: str
    start: int
    size: int
    crc: int
    executable: bool


def members(file: BinaryIO) -> list[Member]:
    """Every file, by path; none of their bytes is looked at. Raises RefusedError `bad-bundle`."""
    size = file.seek(0, os.SEEK_END)
    directory, count, end = _directory(file, size)
    found = list(_entries(directory, count))
    _require_gapless(file, found, end)
    _require_distinct(member.path for member, _ in found)
    if sum(member.size for member, _ in found) > limits.SOURCE_UNPACKED_BYTES:
        refuse(f"its files hold more than {limits.SOURCE_UNPACKED_BYTES >> 30} GiB")
    starts = [member._replace(start=member.start + len(header)) for member, header in found]
    return sorted(starts, key=lambda member: member.path.split("/"))


def refuse(why: str, path: str | None = None) -> NoReturn:
    at = "" if path is None else f"{shown(path)}: "
    raise RefusedError(
        "bad-bundle",
        "the source bundle is refused, and nothing of it was unpacked",
        why=f"{at}{why}",
        hint="gpulayer help bad-bundle",
    )


def shown(path: str) -> str:
    return path.encode("unicode_escape", "surrogatepass").decode("ascii")[:200]


def _directory(file: BinaryIO, size: int) -> tuple[bytes, int, int]:
    """(the directory, its count of entries, where it begins)."""
    comment, end = _end(file, size)
    _, disk, first_disk, here, count, length, offset, _ = layout.END.unpack(end)
    if count > limits.SOURCE_ENTRIES:
        refuse(f"it has {count} entries; up to {limits.SOURCE_ENTRIES} are allowed")
    if disk or first_disk or here != count:
        refuse("it is a part of several")
    if offset + length + layout.END.size + len(comment) != size:
        refuse("its directory is not where its end says")
    file.seek(offset)
    directory = file.read(length)
    if comment and comment != layout.seal(directory):
        refuse("its directory is not the one that was sealed")
    return directory, count, offset


def _end(file: BinaryIO, size: int) -> tuple[bytes, bytes]:
    for length in (layout.SEAL_BYTES, 0):
        at = size - layout.END.size - length
        if at < 0:
            continue
        file.seek(at)
        end = file.read(layout.END.size)
        if end.startswith(layout.END_SIGN) and end.endswith(length.to_bytes(2, "little")):
            return file.read(), end
    refuse("it does not end as a zip of ours does")


def _entries(directory: bytes, count: int) -> Iterator[tuple[Member, bytes]]:
    """Each entry, with the local header that must stand where its `start` is for now."""
    at = 0
    for _ in range(count):
        fixed = directory[at : at + layout.CENTRAL.size]
        if len(fixed) < layout.CENTRAL.size or not fixed.startswith(layout.CENTRAL_SIGN):
            refuse("its directory ends too early")
        (_, made, needs, flags, method, time, date, crc, packed, size,
         length, extra, comment, disk, _, mode, start) = layout.CENTRAL.unpack(fixed)  # fmt: skip
        at += layout.CENTRAL.size + length
        raw = directory[at - length : at]
        path = _name(raw, length, flags)
        if flags & ~layout.UTF8:
            refuse(f"it has flags that no bundle has ({flags:#06x})", path)
        if method != layout.STORED or needs > layout.VERSION:
            refuse("it is not stored as it is", path)
        if packed != size:
            refuse("it has two sizes", path)
        if extra or comment or disk:
            refuse("it carries more than a file", path)
        _require_regular(made >> 8, mode, path)
        executable = bool(mode >> 16 & stat.S_IXUSR) and made >> 8 == layout.UNIX
        header = layout.LOCAL.pack(
            layout.LOCAL_SIGN, needs, flags, method, time, date, crc, packed, size, length, 0
        )
        yield Member(path, start, size, crc, executable), header + raw
    if at != len(directory):
        refuse("its directory goes on after its last entry")


def _name(raw: bytes, length: int, flags: int) -> str:
    if len(raw) < length:
        refuse("its directory ends too early")
    try:
        path = raw.decode("utf-8" if flags & layout.UTF8 else "ascii")
    except UnicodeDecodeError:
        refuse("its name is not UTF-8", raw.decode("latin-1"))
    if path.endswith("/"):
        refuse("it is a folder, not a file", path)
    fault = path_fault(path)
    if fault is not None:
        refuse(f"its name {fault[0]}", path)
    return path


def _require_regular(system: int, attributes: int, path: str) -> None:
    kind = stat.S_IFMT(attributes >> 16) if system == layout.UNIX else 0
    if kind not in (0, stat.S_IFREG) or attributes & _DOS_FOLDER:
        refuse("it is a link, a folder or a device", path)


def _require_gapless(file: BinaryIO, found: list[tuple[Member, bytes]], end: int) -> None:
    """One after the other from the first byte to the directory, each under the header that its
    entry says: nothing overlaps, nothing is hidden between them."""
    at = 0
    for member, header in sorted(found, key=lambda pair: pair[0].start):
        if member.start != at:
            refuse("it does not begin where the one before it ends", member.path)
        file.seek(at)
        if file.read(len(header)) != header:
            refuse("its header is not what the directory says", member.path)
        at += len(header) + member.size
    if at != end:
        refuse("there is more in it than its files")


def _require_distinct(paths: Iterable[str]) -> None:
    twins = one_name(paths)
    if twins is not None:
        refuse(f"it has the same name as {shown(twins[1])} on some systems", twins[0])


def one_name(paths: Iterable[str]) -> tuple[str, str] | None:
    """Two paths that are one on a system that does not tell upper from lower case or composed from
    decomposed letters; a file and a folder of one name too."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        key = _folded(path)
        if key in files or key in folders:
            return path, files.get(key) or folders[key]
        files[key] = path
        parent = path
        while parent := parent.rpartition("/")[0]:
            key = _folded(parent)
            if key in files or folders.get(key, parent) != parent:
                return path, files.get(key) or folders[key]
            if key in folders:
                break
            folders[key] = parent
    return None


def _folded(path: str) -> str:
    if path.isascii():
        return path.lower()
    composed = unicodedata.normalize("NFC", path)
    return unicodedata.normalize("NFC", composed.casefold())


_DOS_FOLDER = 0x10
