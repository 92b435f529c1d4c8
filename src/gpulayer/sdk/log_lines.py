"""A job's log as it was written: framed bytes in, records or lines out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from gpulayer.api.paths import job_path
from gpulayer.runtime import segments

PARK_SECONDS = 25.0


class Caller(Protocol):
    """What a `Wire` or a `Direct` offers for bytes."""

    def request(self, method: str, path: str, *, park: float = 0.0) -> Any: ...


def records(
    caller: Caller, selector: str, *, follow: bool = False, query: Mapping[str, Any] | None = None
) -> Iterator[segments.Record]:
    """Every record so far; with `follow` until the job's log is complete.

    Safe across restarts of the plane: each request names the offset from which it goes on.
    """
    offset, reader = "", segments.Reader()
    while True:
        park = PARK_SECONDS if follow else 0.0
        path = job_path(selector, "logs", **{**(query or {}), "offset": offset, "wait": park})
        reply = caller.request("GET", path, park=park)
        yield from reader.feed(reply.data)
        offset = reply.headers["x-gpulayer-next"]
        if reply.headers["x-gpulayer-eof"] == "1" or not (follow or reply.data):
            return


def lines(found: Iterator[segments.Record]) -> Iterator[str]:
    """Lines of text without their ends, each stream put together for itself. Bytes that are no
    UTF-8 are replaced."""
    return (line for _, line in ranked_lines(found))


def ranked_lines(found: Iterator[segments.Record]) -> Iterator[tuple[int, str]]:
    """The same, each with the rank that wrote it."""
    open_lines: dict[tuple[int, int], bytes] = {}
    for record in found:
        key = (record.rank, record.stream)
        *whole, rest = (open_lines.get(key, b"") + record.data).split(b"\n")
        for line in whole:
            yield record.rank, line.rstrip(b"\r").decode(errors="replace")
        open_lines[key] = rest
    for (rank, _), rest in open_lines.items():
        if rest:
            yield rank, rest.decode(errors="replace")
