"""The SHA-256 of bytes that pass, made on a thread of its own: whoever brings them does not wait.

Small ones need no thread, and get none.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

PIECE_BYTES = 1 << 20
"""As many are handed over at once."""
_AHEAD = 4
"""So many pieces may wait: the memory that it takes."""


class Digesting:
    """Of one stream. For one thread."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self._parts: list[bytes] = []
        self._size = 0
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()

    def update(self, data: bytes) -> None:
        """`data` is not changed any more by anybody."""
        self._parts.append(data)
        self._size += len(data)
        if self._size < PIECE_BYTES:
            return
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor  # small ones do not pay for it

            self._thread = ThreadPoolExecutor(1, "digest")
        if len(self._waiting) == _AHEAD:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._add, self._parts))
        self._parts, self._size = [], 0

    def hexdigest(self) -> str:
        """Of all; it is over then."""
        while self._waiting:
            self._waiting.popleft().result()
        if self._thread is not None:
            self._thread.shutdown()
        self._add(self._parts)
        self._parts = []
        return self._sum.hexdigest()

    def _add(self, parts: list[bytes]) -> None:
        for part in parts:
            self._sum.update(part)


class Checked:
    """A file to write to that knows the digest of what was written since its beginning."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.tell()
        self._sum = None if self._size else Digesting()

    def digest(self) -> str | None:
        """At the end; None where the beginning was written by somebody else."""
        return None if self._sum is None else self._sum.hexdigest()

    def tell(self) -> int:
        return self._size

    def seek(self, offset: int) -> None:
        """To where it stands, or to its beginning."""
        self._file.seek(offset)
        if offset != self._size:
            self._size, self._sum = offset, None if offset else Digesting()

    def truncate(self) -> None:
        self._file.truncate()

    def write(self, data: bytes) -> int:
        if self._sum is not None:
            self._sum.update(data)
        self._size += len(data)
        return self._file.write(data)
