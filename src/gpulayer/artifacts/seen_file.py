"""What `seen` remembers of a folder, as one file: columns, since rows are slow to read. Pure.

A line with the machine's byte order, one with the checksum of the rest, one of JSON, then the
paths and each column of numbers, all of one length.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from dataclasses import dataclass

from gpulayer.artifacts.witness import Told

_FIRST = f"gpulayer seen 2 {sys.byteorder}\n".encode()
_COLUMNS = 6
_BYTES = 8


@dataclass(frozen=True, slots=True)
class Rows:
    key: str
    rules: str
    digest: str
    left_out: str
    told: list[Told]
    paths: list[str]
    crcs: array[int]
    stamps: list[array[int]]
    """Size, mode, inode, time of the bytes, time of the inode, of each file."""


def packed(rows: Rows) -> bytes:
    paths = "\0".join(rows.paths).encode()
    head = {
        "key": rows.key, "rules": rows.rules, "digest": rows.digest, "left_out": rows.left_out,
        "told": rows.told, "count": len(rows.paths), "path_bytes": len(paths),
    }  # fmt: skip
    columns = [column.tobytes() for column in (rows.crcs, *rows.stamps)]
    body = b"".join((json.dumps(head).encode(), b"\n", paths, *columns))
    return b"%s%08x\n%s" % (_FIRST, zlib.crc32(body), body)


def unpacked(data: bytes) -> Rows | None:
    """None for what `packed` has not made."""
    start = len(_FIRST) + 9
    if not data.startswith(_FIRST) or data[len(_FIRST) : start] != b"%08x\n" % zlib.crc32(
        data[start:]
    ):
        return None
    end = data.index(b"\n", start)
    head = json.loads(data[start:end])
    count, at = head["count"], end + 1 + head["path_bytes"]
    paths = data[end + 1 : at].decode().split("\0") if count else []
    columns = []
    for number in range(_COLUMNS):
        begin = at + number * count * _BYTES
        columns.append(array("q", data[begin : begin + count * _BYTES]))
    return Rows(
        head["key"], head["rules"], head["digest"], head["left_out"], head["told"],
        paths, columns[0], columns[1:],
    )  # fmt: skip
