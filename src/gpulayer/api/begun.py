"""Uploads on their way in, so that one whose connection ended can go on from where it was.

    FOLDER/begun-OWNER-DIGEST     what came of an upload so far
    FOLDER/upload-...             a whole body, of whoever handles it

What has come is its sender's alone: the digest of who sends it is part of the name, so nobody goes
on with another's, nor hears of it. What nobody goes on with is swept with what dead writers of the
store leave behind, after an hour.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from gpulayer.artifacts.on_disk import write_whole
from gpulayer.contracts.named import DIGEST
from gpulayer.contracts.principals import Principal
from gpulayer.errors import RefusedError, UsageError

WORTH_BYTES = 1 << 20
"""What came of a smaller one is not kept: it is sent anew."""
_PREFIX = "begun-"


class Begun:
    """Of one plane. Uploads belong to the event loop's thread, but for what they write; `sizes` to
    any."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._latest: dict[str, Upload] = {}

    def sizes(self, principal: Principal) -> dict[str, int]:
        """Digest -> how much came, of the uploads that this one can go on with."""
        prefix = f"{_PREFIX}{owner_of(principal)}-"
        found = {}
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.startswith(prefix):
                    try:
                        found[entry.name.removeprefix(prefix)] = entry.stat().st_size
                    except FileNotFoundError:
                        continue  # it is whole now
        return found

    def upload(self, principal: Principal, digest: str, offset: int) -> Upload:
        """Of the bytes from `offset` on; from 0 it begins anew. Whoever was at it before writes no
        more: its connection is dead and has not heard of it yet."""
        if not DIGEST.fullmatch(digest):
            raise UsageError("usage", "an artifact is named by its SHA-256: 64 digits, 0-9 and a-f")
        path = os.path.join(self.folder, f"{_PREFIX}{owner_of(principal)}-{digest}")
        upload = Upload(self, path, offset)
        before = self._latest.get(path)
        self._latest[path] = upload
        if before is not None:
            before.end()
        upload.begin()
        return upload

    def is_latest(self, upload: Upload) -> bool:
        return self._latest.get(upload.path) is upload

    def ended(self, upload: Upload) -> None:
        if self.is_latest(upload):
            del self._latest[upload.path]


class Whole(NamedTuple):
    """A body that has all come."""

    path: str
    digest: str | None
    """Of its bytes as they came; None where they did not come all at once."""


class Upload:
    """One connection's part of it. Leaving the context keeps what came, if that is worth it."""

    def __init__(self, begun: Begun, path: str, offset: int) -> None:
        self._begun = begun
        self.path = path
        self.size = offset
        self._sum = None if offset else hashlib.sha256()
        self._writing = Lock()
        self._is_over = False
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        have = os.fstat(self._fd).st_size
        if offset > have:
            os.close(self._fd)
            if not have:
                Path(path).unlink(missing_ok=True)
            raise RefusedError(
                "not-allowed",
                f"the upload goes on at byte {offset:,}, and {have:,} of its bytes are here",
                why="only who began an upload goes on with it, and only within an hour",
            )

    def begin(self) -> None:
        """Nobody else writes in it any more."""
        os.ftruncate(self._fd, self.size)
        os.lseek(self._fd, self.size, os.SEEK_SET)

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        os.close(self._fd)
        if self._begun.is_latest(self) and self.size < WORTH_BYTES:
            Path(self.path).unlink(missing_ok=True)
        self._begun.ended(self)

    def end(self) -> None:
        """Nothing is written any more when this returns."""
        with self._writing:
            self._is_over = True

    def write(self, data: bytes) -> None:
        """On any thread, one after the other. Raises ConnectionAbortedError once another connection
        goes on with it."""
        with self._writing:
            self._require()
            write_whole(self._fd, data)
            self.size += len(data)
        if self._sum is not None:
            self._sum.update(data)

    def whole(self) -> Whole:
        """Its file is the caller's now."""
        self._require()
        handle, path = tempfile.mkstemp(prefix="upload-", dir=self._begun.folder)
        os.close(handle)
        os.replace(self.path, path)
        return Whole(path, None if self._sum is None else self._sum.hexdigest())

    def drop(self) -> None:
        """It will never be whole."""
        self.size = 0

    def _require(self) -> None:
        if self._is_over:
            raise ConnectionAbortedError("another connection goes on with this upload")


def owner_of(principal: Principal) -> str:
    """Who sends, told apart from all others."""
    who = principal.worker_id or principal.owner
    return hashlib.sha256(who.encode()).hexdigest()[:16]
