"""Giving a plane the bytes that it lacks, and of a bundle no more than what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, BinaryIO, Protocol

from gpulayer.artifacts.bundle import Bundle
from gpulayer.artifacts.mending import difference
from gpulayer.artifacts.seen import Contents
from gpulayer.errors import NotFoundError, RefusedError

MISSING = "/v1/artifacts/missing"
STORING_SECONDS = 600.0
"""How long a plane may take to check and store what it was sent."""


class Transport(Protocol):
    """A `Wire` or a `Direct`."""

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any: ...

    def request(
        self,
        method: str,
        path: str,
        body: BinaryIO | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        park: float = 0.0,
    ) -> Any: ...


def put_artifact(transport: Transport, path: str, body: Any, size: int) -> int:
    """Store `size` bytes of a body that can be read anew; how many were sent."""
    headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
    transport.request("PUT", path, body, headers=headers, park=STORING_SECONDS)
    return size


def send_bundle(transport: Transport, bundle: Bundle, before: Contents | None) -> int:
    """Store a bundle; how many bytes were sent. `before`: what was perhaps sent earlier."""
    path = f"/v1/artifacts/sha256/{bundle.digest}"
    if before is not None and before.digest != bundle.digest:
        head, changed = difference(before.entries, bundle.entries)
        size = len(head) + sum(entry.size for entry in changed)
        if size < bundle.size:

            def body() -> Iterator[bytes]:
                return chain((head,), *map(bundle.content, changed))

            try:
                return put_artifact(transport, f"{path}/from/{before.digest}", _Stream(body), size)
            except (NotFoundError, RefusedError) as error:
                if error.code == "source-refused":
                    raise  # a file changed meanwhile: the whole would be no better
    return put_artifact(transport, path, _Stream(bundle.chunks), bundle.size)


class _Stream:
    """A body that is made while it is sent, and made again when the exchange is."""

    def __init__(self, make: Callable[[], Iterator[bytes]]) -> None:
        self._make = make
        self._pieces: Iterator[bytes] = make()
        self._left = b""

    def seek(self, offset: int) -> None:
        assert offset == 0
        self._pieces, self._left = self._make(), b""

    def read(self, size: int = -1) -> bytes:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._left = piece
        data, self._left = (self._left, b"") if size < 0 else (self._left[:size], self._left[size:])
        return data
