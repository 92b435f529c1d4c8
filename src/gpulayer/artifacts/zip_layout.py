"""The bytes of our archives: a zip in which nothing is left to the writer's taste. Pure.

Entries are stored, sorted by the bytes of their names, named in UTF-8 with forward slashes; times
are the first that a zip can say; modes are 0644 or 0755. So equal folders are equal bytes. Local
headers follow each other without a gap, then the directory, then its end with our comment: the
checksum of the directory, which no other part of a zip covers. (APPNOTE.TXT 6.3.9.)
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
LOCAL_SIGN, CENTRAL_SIGN, END_SIGN = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"

VERSION, UNIX = 20, 3
UTF8 = 0x800
"""The flag for names in UTF-8, and the only one that we know."""
STORED = 0
_TIME, _DATE = 0, 0x21
"""1980-01-01 00:00."""
FILE, EXECUTABLE = 0o100644, 0o100755
SEAL_BYTES = 25


class Entry(NamedTuple):
    """One file of an archive."""

    path: str
    size: int
    crc: int
    executable: bool


def local_header(entry: Entry) -> bytes:
    """What stands before the bytes of a file."""
    name = entry.path.encode()
    return LOCAL.pack(LOCAL_SIGN, *_shared(entry), len(name), 0) + name


def tail(entries: Sequence[Entry]) -> bytes:
    """What stands after the last file."""
    parts, offset = [], 0
    for entry in entries:
        name = entry.path.encode()
        mode = EXECUTABLE if entry.executable else FILE
        made = UNIX << 8 | VERSION
        rest = (len(name), 0, 0, 0, 0, mode << 16, offset)
        parts.append(CENTRAL.pack(CENTRAL_SIGN, made, *_shared(entry), *rest) + name)
        offset += LOCAL.size + len(name) + entry.size
    directory = b"".join(parts)
    count = len(entries)
    ending = (0, 0, count, count, len(directory), offset, SEAL_BYTES)
    return directory + END.pack(END_SIGN, *ending) + seal(directory)


def seal(directory: bytes) -> bytes:
    return b"gpulayer bundle: %08x" % zlib.crc32(directory)


def size_of(entries: Sequence[Entry]) -> int:
    """Bytes of the whole archive."""
    names = sum(len(entry.path.encode()) for entry in entries)
    fixed = (LOCAL.size + CENTRAL.size) * len(entries) + END.size + SEAL_BYTES
    return fixed + 2 * names + sum(entry.size for entry in entries)


def _shared(entry: Entry) -> tuple[int, ...]:
    return (VERSION, UTF8, STORED, _TIME, _DATE, entry.crc, entry.size, entry.size)
