"""Giving a plane the bytes that it lacks, and of a folder no more than what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from gpulayer.api.transfers import ARTIFACT, MISSING, Client, send, upload
from gpulayer.artifacts.bundle import PIECE, Bundle
from gpulayer.artifacts.mending import difference
from gpulayer.artifacts.seen import Contents
from gpulayer.contracts.durations import bytes_text
from gpulayer.errors import NotFoundError, RefusedError


class Parcel(Protocol):
    """One artifact that travels with a job."""

    @property
    def digest(self) -> str: ...

    def send(self, transport: Client) -> int:
        """Store it, since the plane lacks it; how many bytes were sent."""


@dataclass(frozen=True, slots=True)
class FileParcel:
    path: str
    digest: str
    size: int

    def say(self) -> str:
        return f"input: {self.path}, {bytes_text(self.size)}"

    def send(self, transport: Client) -> int:
        with open(self.path, "rb") as file:
            return upload(transport, self.digest, file, self.size)


@dataclass(frozen=True, slots=True)
class FolderParcel:
    bundle: Bundle
    what: str
    before: Contents | None = field(repr=False)
    """What the folder held when it was last looked at: perhaps it was sent then."""

    @property
    def digest(self) -> str:
        return self.bundle.digest

    def say(self) -> str:
        return self.bundle.say(self.what)

    def send(self, transport: Client) -> int:
        return send_bundle(transport, self.bundle, self.before)


def send_lacking(transport: Client, parcels: Sequence[Parcel]) -> int:
    """Store those that the plane lacks; how many bytes were sent."""
    waiting = {parcel.digest: parcel for parcel in parcels}
    if not waiting:
        return 0
    missing = transport.call("POST", MISSING, {"digests": list(waiting)})["missing"]
    return sum(waiting[digest].send(transport) for digest in missing)


def send_bundle(transport: Client, bundle: Bundle, before: Contents | None) -> int:
    """Store a bundle; how many bytes were sent. `before`: what was perhaps sent earlier."""
    if before is not None and before.digest != bundle.digest:
        head, changed = difference(before.entries, bundle.entries)
        size = len(head) + sum(entry.size for entry in changed)
        if size < bundle.size:

            def body() -> Iterator[bytes]:
                return chain((head,), *map(bundle.content, changed))

            try:
                path = f"{ARTIFACT}{bundle.digest}/from/{before.digest}"
                return send(transport, path, _Stream(body), size)
            except (NotFoundError, RefusedError) as error:
                if error.code == "source-refused":
                    raise  # a file changed meanwhile: the whole would be no better
    return upload(transport, bundle.digest, _Stream(bundle.chunks), bundle.size)


class _Stream:
    """A body that is made while it is sent, and made again when the exchange is."""

    def __init__(self, make: Callable[[], Iterator[bytes]]) -> None:
        self._make = make
        self._pieces: Iterator[bytes] = make()
        self._left = b""

    def seek(self, offset: int) -> None:
        self._pieces, self._left = self._make(), b""
        while offset and (data := self.read(min(offset, PIECE))):
            offset -= len(data)

    def read(self, size: int = -1) -> bytes:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._left = piece
        data, self._left = (self._left, b"") if size < 0 else (self._left[:size], self._left[size:])
        return data
