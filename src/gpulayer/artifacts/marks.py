"""What a bucket is known to hold, and when somebody was last told so: a file of no bytes for each.

    FOLDER/ab/abcdef...    its time is when it was put, or somebody was told that it is there

The plane that has the folder is the only one that puts and deletes in its bucket, so a mark is as
good as a question, and costs none. What others do there is noticed when the bucket is listed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from gpulayer.artifacts.on_disk import Asking
from gpulayer.artifacts.syncing import make_folder


class Marks:
    """Of one bucket. Thread-safe. What is put or asked for at this moment is never deleted at the
    same, and nobody is told that something is there while it is deleted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._moment = Condition()
        self._held: dict[str, int] = {}
        self._going: set[str] = set()
        with Asking(folder):
            make_folder(folder)

    def time(self, digest: str) -> float | None:
        """Of the mark; None without one."""
        try:
            return os.stat(self._place(digest)).st_mtime
        except FileNotFoundError:
            return None

    def renew(self, digest: str) -> bool:
        """Make a mark young. False: there is none, or it goes just now."""
        with self._moment, Asking(self._folder):
            if digest in self._going:
                return False
            try:
                os.utime(self._place(digest))
            except FileNotFoundError:
                return False
        return True

    def make(self, digest: str, at: float | None = None) -> None:
        """Young, or as of `at` (Unix time)."""
        place = self._place(digest)
        with Asking(self._folder):
            make_folder(place.parent)
            place.touch(mode=0o600)
            os.utime(place, None if at is None else (at, at))

    def drop(self, digest: str) -> None:
        self._place(digest).unlink(missing_ok=True)

    @contextmanager
    def held(self, digest: str) -> Iterator[None]:
        """While this lasts it is not deleted; one that is being deleted is waited for."""
        with self._moment:
            self._moment.wait_for(lambda: digest not in self._going)
            self._held[digest] = self._held.get(digest, 0) + 1
        try:
            yield
        finally:
            with self._moment:
                self._held[digest] -= 1
                if not self._held[digest]:
                    del self._held[digest]

    @contextmanager
    def going(self, digest: str, before: float) -> Iterator[bool]:
        """Whether it may be deleted now: nobody holds it, and no mark is of `before` or later."""
        with self._moment:
            at = self.time(digest)
            may_go = not (
                digest in self._held or digest in self._going or (at is not None and at >= before)
            )
            if may_go:
                self._going.add(digest)
                self.drop(digest)
        try:
            yield may_go
        finally:
            if may_go:
                with self._moment:
                    self._going.discard(digest)
                    self._moment.notify_all()

    def older(self, than: float) -> Iterator[str]:
        """Digests whose marks were made before that Unix time."""
        for shelf in os.scandir(self._folder):
            for entry in os.scandir(shelf.path):
                if entry.stat().st_mtime < than:
                    yield entry.name

    def _place(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest
