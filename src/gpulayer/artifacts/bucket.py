"""Artifacts in a bucket: the port of `store`, where the bytes lie on other machines.

    PREFIX/sha256/ab/abcdef...    an artifact; written once it is known to be what its name says
    PREFIX/new/...                put there by a worker itself, and not looked at yet
    PREFIX/checked/...            the same, out of that worker's reach, being looked at
    PREFIX/damaged/...            did not hold what its name says; kept for a look, never served

A key under `sha256/` appears in one step, whole (that is what S3 promises of a PUT and of the end
of a multipart upload), and equal keys are equal bytes, so nothing here needs a condition that a
store may not know. Bytes pass through `FOLDER/.new` on the way: what comes is compared with its
name before it is sent, and what goes out before it is served.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, NoReturn

from gpulayer.artifacts.digesting import Digesting
from gpulayer.artifacts.marks import Marks
from gpulayer.artifacts.objects import Objects
from gpulayer.artifacts.on_disk import (
    NEW,
    SAFE,
    Asking,
    Stored,
    chunks_of,
    digest_of,
    mismatch,
    not_found,
    not_offered,
    open_regular,
    swept,
    write,
)
from gpulayer.artifacts.port import Offer
from gpulayer.artifacts.s3 import Bucket
from gpulayer.artifacts.syncing import make_folder
from gpulayer.contracts.ids import Digest
from gpulayer.contracts.named import DIGEST
from gpulayer.errors import NotFoundError, StorageError

SMALL_AT_ONCE = 8
LINK_SECONDS = 3_600.0
OFFERED_BYTES = (8 << 20, 5 << 30)
"""What a worker may put by itself: below, the questions cost more than the bytes; above, S3 takes
no single PUT."""


class BucketArtifacts:
    """The artifacts of one bucket. One plane has it (`sdk.bucket_owner`)."""

    def __init__(self, bucket: Bucket, folder: str | os.PathLike[str]) -> None:
        """`folder`: of this machine, for what is on its way and for the marks."""
        self.folder = Path(folder)
        self._objects = Objects(bucket)
        self._names = itertools.count()
        for made in (self.folder, self.folder / ".new"):
            with Asking(made):
                make_folder(made)
        self._marks = Marks(self.folder / ".marks")

    def put_file(self, path: str | os.PathLike[str]) -> tuple[Digest, int]:
        with open_regular(Path(path)) as source:
            return self.put_stream(chunks_of(source))

    def put_stream(
        self, chunks: Iterable[bytes], expected: str | None = None
    ) -> tuple[Digest, int]:
        temporary = self._new_path()
        try:
            with Asking(temporary):
                descriptor = os.open(temporary, NEW, 0o600)
            with open(descriptor, "wb", buffering=0) as file:
                digest, size = write(file, temporary, chunks)
            if expected is not None and digest != expected:
                raise mismatch(expected, digest)
            self._send(temporary, digest, size)
        finally:
            temporary.unlink(missing_ok=True)
        return digest, size

    def take(self, path: str | os.PathLike[str], expected: str, found: str | None = None) -> int:
        place = Path(path)
        try:
            with open_regular(place) as file, Asking(place):
                digest, size = digest_of(file, found)
            if digest != expected:
                raise mismatch(expected, digest)
            self._send(place, digest, size)
        finally:
            place.unlink(missing_ok=True)
        return size

    def put_many(self, files: Iterable[tuple[str, Iterable[bytes]]]) -> None:
        """They are in memory at once: a pack of `packs` has a limit."""
        whole = [(digest, b"".join(chunks)) for digest, chunks in files]
        for digest, data in whole:
            found = hashlib.sha256(data).hexdigest()
            if found != digest:
                raise mismatch(digest, found)

        def put(one: tuple[str, bytes]) -> None:
            digest, data = one
            with self._marks.held(digest):
                self._objects.put(_key(digest), data)
                self._marks.make(digest)

        with ThreadPoolExecutor(SMALL_AT_ONCE) as pool:
            list(pool.map(put, whole))

    def open(self, digest: str) -> BinaryIO:  # noqa: RET503  the last line does not return
        _require(digest)
        for _ in range(2):  # a store is not damned for what the way to it did
            file = self._fetched(digest)
            if file is not None:
                return file
        self._set_aside(digest)

    def has(self, digest: str) -> bool:
        _require(digest)
        try:
            self._objects.head(_key(digest), lambda: not_found(digest))
        except NotFoundError:
            return False
        return True

    def touch(self, digest: str) -> bool:
        if not DIGEST.fullmatch(digest):
            return False
        if self._marks.renew(digest):
            return True
        with self._marks.held(digest):
            if not self.has(digest):
                return False
            self._marks.make(digest)
        return True

    def knows(self, digests: Iterable[str]) -> bool:
        return all(not DIGEST.fullmatch(d) or self._marks.time(d) is not None for d in digests)

    def delete(self, digest: str, before: float = math.inf) -> int | None:
        _require(digest)
        marked = self._marks.time(digest)
        with self._marks.going(digest, before) as may_go:
            if not may_go:
                return None
            try:
                found = self._objects.head(_key(digest), lambda: not_found(digest))
            except NotFoundError:
                return None
            if marked is None and found.at >= before:
                return None
            self._objects.remove(_key(digest))
        return found.size

    def stored(self) -> Iterator[Stored]:
        """Brings the marks up to date as well."""
        began = _now(self.folder)
        seen = set()
        for key, size, at in self._objects.below("sha256"):
            digest = key.rpartition("/")[2]
            if not DIGEST.fullmatch(digest):
                continue
            seen.add(digest)
            touched = self._marks.time(digest)
            if touched is None:
                self._marks.make(digest, at)
            yield Stored(Digest(digest), size, at if touched is None else touched)
        for digest in list(self._marks.older(began)):
            if digest not in seen:
                self._marks.drop(digest)

    def sweep(
        self, unfinished: float, damaged: float, *, dry_run: bool = False
    ) -> list[tuple[str, int]]:
        found = list(swept(self.folder, ".new", unfinished, dry_run=dry_run))
        for part, before in (("new", unfinished), ("checked", unfinished), ("damaged", damaged)):
            for key, size, at in self._objects.below(part):
                if at < before:
                    if not dry_run:
                        self._objects.remove(key)
                    found.append((f".{key}" if part == "damaged" else key, size))
        return found

    def link(self, digest: str) -> str | None:
        _require(digest)
        return self._signed("GET", _key(digest))

    def offer(self, whose: str, size: int) -> Offer | None:
        least, most = OFFERED_BYTES
        if not least <= size <= most:
            return None
        name = f"{whose}-{token_hex(16)}"
        return Offer(self._signed("PUT", f"new/{name}"), name)

    def arrived(self, whose: str, name: str, expected: str) -> int:
        """Moved out of its sender's reach first, whose URL is still good."""
        if not (_NAME.fullmatch(name) and name.startswith(f"{whose}-")):
            raise not_offered(name)
        _require(expected)
        new, checked = f"new/{name}", f"checked/{name}"
        self._objects.copy(new, checked, lambda: not_offered(name))
        try:
            self._objects.remove(new)
            seen, size = Digesting(), 0
            for chunk in self._objects.read(checked, lambda: not_offered(name)):
                seen.update(chunk)
                size += len(chunk)
            found = seen.hexdigest()
            if found != expected:
                raise mismatch(expected, found)
            with self._marks.held(expected):
                self._objects.copy(checked, _key(expected), lambda: not_offered(name))
                self._marks.make(expected)
        finally:
            self._objects.remove(checked)
        return size

    def _send(self, path: Path, digest: str, size: int) -> None:
        with self._marks.held(digest), open(path, "rb") as file:
            self._objects.put_file(_key(digest), file, size)
            self._marks.make(digest)

    def _fetched(self, digest: str) -> BinaryIO | None:
        """The bytes in a file without a name; None: they are others."""
        temporary = self._new_path()
        with Asking(temporary):
            file = os.fdopen(os.open(temporary, _BOTH_WAYS, 0o600), "r+b")
            temporary.unlink()
        try:
            found, _ = write(
                file, temporary, self._objects.read(_key(digest), lambda: not_found(digest))
            )
            with Asking(temporary):
                file.flush()
                file.seek(0)
        except BaseException as error:
            file.close()
            if isinstance(error, NotFoundError):
                self._marks.drop(digest)
            raise
        if found == digest:
            return file
        file.close()
        return None

    def _set_aside(self, digest: str) -> NoReturn:
        self._objects.copy(_key(digest), f"damaged/{digest}", lambda: not_found(digest))
        self._objects.remove(_key(digest))
        self._marks.drop(digest)
        raise StorageError(
            "corrupt",
            f"Artifact {digest[:12]} does not hold what its name says; it was set aside.",
            where=f"{self._objects.bucket.address}/damaged/{digest}",
            why="the store or another program changed it",
        )

    def _signed(self, method: str, key: str) -> str:
        return self._objects.signed(method, key, LINK_SECONDS)

    def _new_path(self) -> Path:
        return self.folder / ".new" / f"{os.getpid()}-{id(self)}-{next(self._names)}"


def _key(digest: str) -> str:
    return f"sha256/{digest[:2]}/{digest}"


def _require(digest: str) -> None:
    if not DIGEST.fullmatch(digest):
        raise not_found(digest)


def _now(folder: Path) -> float:
    """By the clock that gives marks their times."""
    place = folder / ".now"
    place.touch(mode=0o600)
    os.utime(place)
    return place.stat().st_mtime


_BOTH_WAYS = os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFE
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{32}")
