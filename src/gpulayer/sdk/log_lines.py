"""A job's log as it was written: framed bytes in, records or lines out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Protocol, TypeVar

from gpulayer.api.paths import job_path
from gpulayer.runtime import segments

PARK_SECONDS = 25.0
LAST_BYTES = 64 << 10
"""The first piece that is read from the end of a log."""
BEYOND = 1 << 62
"""An offset behind the end of any log."""

T = TypeVar("T")


class Caller(Protocol):
    """What a `Wire` or a `Direct` offers for bytes."""

    def request(self, method: str, path: str, *, park: float = 0.0) -> Any: ...


def records(
    caller: Caller,
    selector: str,
    *,
    follow: bool = False,
    query: Mapping[str, Any] | None = None,
    offset: str = "",
) -> Iterator[segments.Record]:
    """Every record so far; with `follow` until the job's log is complete. `offset`: where a record
    begins, as the plane says it.

    Safe across restarts of the plane: each request names the offset from which it goes on.
    """
    reader = segments.Reader()
    while True:
        park = PARK_SECONDS if follow else 0.0
        path = job_path(selector, "logs", **{**(query or {}), "offset": offset, "wait": park})
        reply = caller.request("GET", path, park=park)
        yield from reader.feed(reply.data)
        offset = reply.headers["x-gpulayer-next"]
        if reply.headers["x-gpulayer-eof"] == "1" or not (follow or reply.data):
            return


def last(
    caller: Caller,
    selector: str,
    count: int,
    render: Callable[[Iterator[segments.Record]], Iterator[T]],
    *,
    follow: bool = False,
    query: Mapping[str, Any] | None = None,
) -> Iterator[T]:
    """The last `count` lines that `render` makes of the records; with `follow` also what comes.

    The log is read backwards, in ever larger pieces, until there are enough; that of several
    tasks at once is read whole.
    """
    asked = query or {}
    span, size = LAST_BYTES, _size(caller, selector, asked)
    begin = whole = 0
    lines: list[T] = [] if size else list(render(records(caller, selector, query=query)))
    while size:
        begin = max(0, size - span)
        data = _between(caller, selector, begin, size, asked)
        whole = segments.first_whole(data) if begin else 0
        found = iter(segments.decode(data[whole:]))
        lines = list(render(_without_torn(found) if begin else found))
        if begin == 0 or len(lines) >= count:
            break
        span *= 8
    skip = max(0, len(lines) - count)
    if not follow:
        yield from lines[skip:]
        return
    offset = str(begin + whole) if size else ""
    more = records(caller, selector, follow=True, offset=offset, query=query)
    yield from islice(render(_without_torn(more) if begin else more), skip, None)


def _size(caller: Caller, selector: str, query: Mapping[str, Any]) -> int:
    """0 where it is none, or no plane says it."""
    reply = caller.request("GET", job_path(selector, "logs", **query, offset=BEYOND))
    return int(reply.headers.get("x-gpulayer-size", 0))


def _between(
    caller: Caller, selector: str, begin: int, end: int, query: Mapping[str, Any]
) -> bytes:
    parts = []
    while begin < end:
        path = job_path(selector, "logs", **query, offset=begin)
        data = caller.request("GET", path).data
        if not data:
            break
        parts.append(data)
        begin += len(data)
    return b"".join(parts)


def _without_torn(found: Iterator[segments.Record]) -> Iterator[segments.Record]:
    """Without the end of a line that began before the first record of its stream."""
    seen: set[tuple[int, int, int]] = set()
    for record in found:
        key = (record.rank, record.stream, record.index)
        if key not in seen:
            _, ends, record.data = record.data.partition(b"\n")
            if not ends:
                continue
            seen.add(key)
        yield record


def lines(found: Iterator[segments.Record]) -> Iterator[str]:
    """Lines of text without their ends, each stream put together for itself. Bytes that are no
    UTF-8 are replaced."""
    return (line for _, line in ranked_lines(found))


def ranked_lines(found: Iterator[segments.Record]) -> Iterator[tuple[tuple[int, int], str]]:
    """The same, each with the element and the rank that wrote it."""
    open_lines: dict[tuple[int, int, int], bytes] = {}
    for record in found:
        key = (record.index, record.rank, record.stream)
        *whole, rest = (open_lines.pop(key, b"") + record.data).split(b"\n")
        for line in whole:
            yield key[:2], line.rstrip(b"\r").decode(errors="replace")
        if rest:
            open_lines[key] = rest
    for key, rest in open_lines.items():
        yield key[:2], rest.decode(errors="replace")
