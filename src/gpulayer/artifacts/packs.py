"""Many small artifacts in one body, so that each costs no exchange of its own.

[[digest, size], ...]\\n  their bytes, one after the other
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from gpulayer.artifacts.port import ArtifactStore
from gpulayer.errors import RefusedError, UsageError

HEAD_BYTES = 8 << 20
PACK_FILES = 1_000
PACK_BYTES = 32 << 20
"""What one pack holds at most."""


def head_of(files: Iterable[tuple[str, int]]) -> bytes:
    return json.dumps([list(file) for file in files], separators=(",", ":")).encode() + b"\n"


def unpack(body: BinaryIO, artifacts: ArtifactStore) -> int:
    """Store them all, each if it is what it is called; the number. What was stored before a
    refusal stays: it is named by its own bytes."""
    files = _head(body)
    artifacts.put_many((digest, _exactly(body, size)) for digest, size in files)
    return len(files)


def _head(body: BinaryIO) -> list[tuple[str, int]]:
    try:
        rows = json.loads(body.readline(HEAD_BYTES))
        files = [(digest, size) for digest, size in rows]
    except (ValueError, TypeError, RecursionError):
        raise _no_sense() from None
    is_fit = type(rows) is list and all(
        type(digest) is str and type(size) is int and size >= 0 for digest, size in files
    )
    if not is_fit:
        raise _no_sense()
    if len(files) > PACK_FILES or sum(size for _, size in files) > PACK_BYTES:
        raise RefusedError("too-large", f"a pack has up to {PACK_FILES} files of 32 MiB in all")
    return files


def _exactly(body: BinaryIO, size: int) -> Iterator[bytes]:
    data = body.read(size)
    if len(data) < size:
        raise _no_sense()
    yield data


def _no_sense() -> UsageError:
    return UsageError("usage", "the pack is not what its head says")
