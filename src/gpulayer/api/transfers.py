"""Bytes of artifacts to a plane and from it. What was cut off goes on from where it was, for as
long as each try brings it further; the digest is of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Protocol

from gpulayer.errors import UnreachableError

ARTIFACT = "/v1/artifacts/sha256/"
MISSING = "/v1/artifacts/missing"
STORING_SECONDS = 600.0
"""How long a plane may check an artifact, before its first byte or after its last."""
WORTH_BYTES = 1 << 20
"""A smaller one is sent anew."""
TRIES = 6
"""So many in a row may bring it no further."""


class Body(Protocol):
    """What is sent; it can be read anew."""

    def seek(self, offset: int, /) -> object: ...

    def read(self, size: int = ..., /) -> bytes: ...


class Client(Protocol):
    """What is needed of `wire.Wire`."""

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any: ...

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        park: float = 0.0,
        sink: BinaryIO | None = None,
        tries: int | None = None,
    ) -> Any: ...


def upload(
    client: Client,
    digest: str,
    body: Body,
    size: int,
    again: Callable[[], object] = lambda: None,
) -> int:
    """Store `size` bytes; how many were sent. `again` is called before each further try.

    Raises UnreachableError where no try brings it further, what the plane answers, what `body`
    raises.
    """
    if size < WORTH_BYTES:
        return send(client, ARTIFACT + digest, body, size)
    sent, best, idle = 0, -1, 0
    while True:
        offset = _begun(client, digest)
        if offset is None:
            return sent  # it was stored, and the answer was lost
        idle = 0 if offset > best else idle + 1
        best = max(best, offset)
        rest = _Rest(body, offset if offset <= size else 0, size)
        try:
            path = f"{ARTIFACT}{digest}?offset={rest.start}"
            return sent + send(client, path, rest, size - rest.start, tries=1)
        except UnreachableError:
            sent += rest.sent
            if idle >= TRIES:
                raise
            again()


def send(client: Client, path: str, body: Body, size: int, *, tries: int | None = None) -> int:
    """One upload of `size` bytes; how many that is."""
    headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
    client.request("PUT", path, body, headers=headers, park=STORING_SECONDS, tries=tries)
    return size


def download(client: Client, digest: str, sink: BinaryIO) -> None:
    """The bytes behind what `sink` holds already. They are not compared with the digest here."""
    client.request("GET", ARTIFACT + digest, park=STORING_SECONDS, sink=sink)


def _begun(client: Client, digest: str) -> int | None:
    """How much the plane has of it that we have sent; None where it has all."""
    answer = client.call("POST", MISSING, {"digests": [digest]})
    if not answer["missing"]:
        return None
    return int((answer.get("begun") or {}).get(digest, 0))


class _Rest:
    """A body from some byte on."""

    def __init__(self, body: Body, start: int, size: int) -> None:
        self._body = body
        self._size = size
        self.start = start
        self.sent = 0

    def seek(self, offset: int) -> None:
        self._body.seek(self.start + offset)
        self.sent = offset

    def read(self, size: int = -1) -> bytes:
        left = self._size - self.start - self.sent
        data = self._body.read(left if size < 0 else min(size, left))
        self.sent += len(data)
        return data
