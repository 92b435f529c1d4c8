"""A bundle from an older one and what has changed since: a small change is a small upload.

    {"gone": [path, ...], "new": [[path, size, crc, executable], ...]}\\n  bytes of each new file

The result is whatever these make of the old bundle; whoever stores it compares its digest with the
announced one, so a wrong word here is no more than a refused upload.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from gpulayer.artifacts import strict_zip, zip_layout as layout
from gpulayer.artifacts.zip_layout import Entry
from gpulayer.contracts import limits
from gpulayer.errors import RefusedError, UsageError

PIECE = 1 << 20
HEAD_BYTES = 8 << 20


def difference(old: Sequence[Entry], new: Sequence[Entry]) -> tuple[bytes, list[Entry]]:
    """The head of the body that makes `new` of `old`, and the files whose bytes follow it."""
    before = {entry.path: entry for entry in old}
    after = {entry.path for entry in new}
    changed = [entry for entry in new if before.get(entry.path) != entry]
    head = {"gone": sorted(before.keys() - after), "new": [list(entry) for entry in changed]}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n", changed


def mended(old: BinaryIO, body: BinaryIO) -> Iterator[bytes]:
    """The new bundle, piece by piece. Raises `bad-bundle` for an old one that is none, `usage` or
    `too-large` for a body that makes no sense; both before the first piece."""
    gone, new = _head(body)
    kept = {
        member.path: (Entry(member.path, member.size, member.crc, member.executable), member.start)
        for member in strict_zip.members(old)
    }
    for path in (*gone, *(entry.path for entry in new)):
        kept.pop(path, None)
    sources: dict[str, tuple[Entry, BinaryIO, int]] = {
        path: (entry, old, start) for path, (entry, start) in kept.items()
    }
    at = body.tell()
    for entry in new:
        sources[entry.path] = (entry, body, at)
        at += entry.size
    entries = [source[0] for source in sources.values()]
    if len(entries) > limits.SOURCE_ENTRIES or layout.size_of(entries) > limits.FOLDER_BYTES:
        raise RefusedError("too-large", "the bundle that this would make is past its limits")
    return _pieces(dict(sorted(sources.items(), key=lambda item: item[0].encode())))


def _pieces(sources: dict[str, tuple[Entry, BinaryIO, int]]) -> Iterator[bytes]:
    for entry, file, start in sources.values():
        yield layout.local_header(entry)
        file.seek(start)
        left = entry.size
        while left and (data := file.read(min(left, PIECE))):
            left -= len(data)
            yield data
    yield layout.tail([entry for entry, _, _ in sources.values()])


def _head(body: BinaryIO) -> tuple[list[str], list[Entry]]:
    line = body.readline(HEAD_BYTES)
    try:
        head = json.loads(line)
        gone, rows = list(head["gone"]), list(head["new"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _no_sense() from None
    if not all(type(path) is str for path in gone) or not all(map(_is_entry, rows)):
        raise _no_sense()
    return gone, [Entry(*row) for row in rows]


def _is_entry(row: Any) -> bool:
    if not isinstance(row, list) or [type(value) for value in row] != [str, int, int, bool]:
        return False
    return all(0 <= number < 1 << 32 for number in row[1:3])


def _no_sense() -> UsageError:
    return UsageError("usage", "the upload does not begin with what is gone and what is new")
