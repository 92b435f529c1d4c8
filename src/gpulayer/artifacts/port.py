"""The one port of the stores of artifacts. `store.LocalArtifacts` keeps them in a folder,
`bucket.BucketArtifacts` in an object store; `tests/unit/artifacts/test_stores.py` is what both are
held to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from gpulayer.artifacts.on_disk import Stored
from gpulayer.contracts.ids import Digest


class Offer(NamedTuple):
    """A place where somebody may put one upload by himself."""

    url: str
    """Good for one upload, for a while. It carries its own right: not for logs."""
    name: str
    """By which the upload is told of when it is whole."""


class ArtifactStore(Protocol):
    """Any thread may call anything at any time; every method is twice-safe. Memory does not grow
    with a file's size. What cannot be done raises StorageError, and nothing was stored then."""

    folder: Path
    """On this machine; bodies of uploads lie in its `.new`."""

    def put_file(self, path: str | os.PathLike[str]) -> tuple[Digest, int]:
        """Keep a copy of a regular file; its last component may not be a symbolic link."""

    def put_stream(
        self, chunks: Iterable[bytes], expected: str | None = None
    ) -> tuple[Digest, int]:
        """Keep what `chunks` yield. If that is not `expected`, or they raise, nothing is kept."""

    def take(self, path: str | os.PathLike[str], expected: str, found: str | None = None) -> int:
        """Keep a file of `folder/.new`, which is the store's from now on; its size. `found`: its
        digest, from whoever wrote it; else it is read."""

    def put_many(self, files: Iterable[tuple[str, Iterable[bytes]]]) -> None:
        """Keep small files, each under its announced digest. If one is another, none is kept."""

    def open(self, digest: str) -> BinaryIO:
        """The bytes, read and compared with their name before you get them. What does not match
        is set aside and raises StorageError `corrupt`; NotFoundError `artifact-not-found`."""

    def has(self, digest: str) -> bool: ...

    def touch(self, digest: str) -> bool:
        """Whether it is here; then it is as young as one that was put just now."""

    def knows(self, digests: Iterable[str]) -> bool:
        """Whether `touch` answers for all of them without asking another machine."""

    def delete(self, digest: str, before: float = ...) -> int | None:
        """How many bytes that freed. None: it was not there, or was touched at `before` (Unix time)
        or later, and whoever was told that it is here may count on it. Who reads it reads to its
        end."""

    def stored(self) -> Iterable[Stored]:
        """Every artifact. One that goes meanwhile may be missing."""

    def sweep(
        self, unfinished: float, damaged: float, *, dry_run: bool = False
    ) -> list[tuple[str, int]]:
        """Delete what writers that died left behind, and what was set aside, last touched before
        these Unix times. Name and bytes of each."""

    def link(self, digest: str) -> str | None:
        """A URL from which its bytes can be had for a while, without us; None where there are no
        such URLs. Nobody has compared them with their name: who takes them does."""

    def offer(self, whose: str, size: int) -> Offer | None:
        """A place for an upload of `size` bytes by somebody who is told apart as `whose`; None
        where it goes through us. Nothing of it is an artifact before `arrived`."""

    def arrived(self, whose: str, name: str, expected: str) -> int:
        """Keep an upload that was offered, if its bytes are what was announced; its size. They are
        read here: nobody's word is taken. What is refused is deleted. UsageError for an upload that
        was not offered to `whose`."""
