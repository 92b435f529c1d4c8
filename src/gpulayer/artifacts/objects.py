"""Objects of a bucket by their keys, each verb with our errors. Large ones are streamed, and a
transfer that is cut goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, BinaryIO, NamedTuple

import obstore
from obstore.exceptions import BaseError

from gpulayer.artifacts.s3 import Bucket
from gpulayer.errors import GPULayerError, StorageError

PART_BYTES = 8 << 20
MOST_PARTS = 9_000
PARTS_AT_ONCE = 4
"""Memory of an upload is this many parts."""
CUTS = 6
"""So many cuts in a row may bring a download no further."""

Missing = Callable[[], GPULayerError]
"""What to raise for an object that is not there."""


class Found(NamedTuple):
    key: str
    size: int
    at: float
    """When it was written (Unix time, by the store's clock)."""


class Objects:
    """Below one address. Thread-safe."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self._store = bucket.store

    def put(self, key: str, data: bytes) -> None:
        with self.bucket.asking():
            obstore.put(self._store, key, data, use_multipart=False)

    def put_file(self, key: str, file: BinaryIO, size: int) -> None:
        """In one step, whole: parts become an object when the last of them is there."""
        part = max(PART_BYTES, size // MOST_PARTS + 1)
        with self.bucket.asking():
            obstore.put(
                self._store, key, file,
                use_multipart=size > part, chunk_size=part, max_concurrency=PARTS_AT_ONCE,
            )  # fmt: skip

    def head(self, key: str, missing: Missing) -> Found:
        with self.bucket.asking(missing):
            found = obstore.head(self._store, key)
        return Found(key, found["size"], found["last_modified"].timestamp())

    def copy(self, key: str, to: str, missing: Missing) -> None:
        with self.bucket.asking(missing):
            obstore.copy(self._store, key, to)

    def remove(self, key: str) -> None:
        """Twice-safe."""
        with self.bucket.asking():
            try:
                obstore.delete(self._store, key)
            except FileNotFoundError:
                pass

    def below(self, part: str) -> Iterator[Found]:
        with self.bucket.asking():
            for page in obstore.list(self._store, part):
                for one in page:
                    yield Found(one["path"], one["size"], one["last_modified"].timestamp())

    def signed(self, method: str, key: str, seconds: float) -> str:
        with self.bucket.asking():
            lasts = timedelta(seconds=seconds)
            return obstore.sign(self._store, method, key, lasts)  # type: ignore[call-overload,no-any-return]

    def read(self, key: str, missing: Missing) -> Iterator[bytes]:
        """Its bytes. Where the way to it is cut, from there on; from its start where the store does
        not give parts."""
        at, idle = 0, 0
        while True:
            began = at
            try:
                with self.bucket.asking(missing):
                    for chunk in self._from(key, at):
                        at += len(chunk)
                        yield chunk
                return
            except StorageError as error:
                idle = 0 if at > began else idle + 1
                if error.code != "bucket-unreachable" or not at or idle >= CUTS:
                    raise

    def _from(self, key: str, at: int) -> Iterator[Any]:
        try:
            options = {"range": {"offset": at}} if at else None
            found = obstore.get(self._store, key, options=options)  # type: ignore[arg-type]
            skipped = at
        except BaseError:
            if not at:
                raise
            found, skipped = obstore.get(self._store, key), 0
        for piece in found.stream(min_chunk_size=1 << 20):
            view = memoryview(piece)
            if skipped < at:
                drop = min(at - skipped, len(view))
                skipped += drop
                view = view[drop:]
            if view:
                yield view
