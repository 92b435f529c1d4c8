"""Live data: server-sent events, as browsers and curl read them (HTML Living Standard, 9.2).

A stream is asked for by `Accept: text/event-stream` on the routes of events and logs. Each message
has an id from which `Last-Event-ID` goes on, so that a reader who was cut off misses nothing and
hears nothing twice. A quiet stream is kept alive by comments; `event: end` says that nothing will
follow, and a reader that sees it need not come back.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpulayer.control_plane.log_parts import cursor_of, offsets_of
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.errors import GPULayerError
from gpulayer.runtime import segments

CONTENT_TYPE = "text/event-stream"
KEEP_ALIVE_SECONDS = 15.0
"""Less than proxies take for a dead connection."""
RETRY_MILLISECONDS = 1_000
"""When a reader that was cut off may come back."""
_STREAMS = {
    segments.NOTE: "note",
    segments.STDOUT: "stdout",
    segments.STDERR: "stderr",
    segments.BOTH: "both",
    segments.PREPARE: "prepare",
}


@dataclass(frozen=True, slots=True)
class Message:
    id: int | str
    """What came up to and with this one."""
    kind: str
    data: Any
    """A JSON value."""

    def encoded(self) -> bytes:
        text = json.dumps(self.data, separators=(",", ":"))
        return f"id: {self.id}\nevent: {self.kind}\ndata: {text}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer without an end of its own.

    `look(after)` gives the messages behind that id, the id to go on from, and whether nothing will
    follow; it is asked again when a topic is woken. A `GPULayerError` of it ends the stream.
    """

    topics: tuple[str, ...]
    after: Any
    look: Callable[[Any], tuple[Sequence[Message], Any, bool]]


async def body(
    stream: Stream, wakeups: Wakeups, keep_alive: float = KEEP_ALIVE_SECONDS
) -> AsyncIterator[bytes]:
    """The bytes of the response, until the end, or until the plane goes: the reader comes back.
    An `event: error` says why it ended before its end, such as a credential that was revoked."""
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    after = stream.after
    while True:
        with wakeups.subscribe(*stream.topics) as ticket:
            try:
                messages, after, ended = stream.look(after)
            except GPULayerError as error:
                text = json.dumps({"error": error.to_json()}, separators=(",", ":"))
                yield f"event: error\ndata: {text}\n\n".encode()
                return
            for message in messages:
                yield message.encoded()
            if ended:
                yield b"event: end\ndata: {}\n\n"
                return
            if not wakeups.is_open:
                return
            if messages:
                continue  # there may be more already
            woken = asyncio.wrap_future(ticket.future)
            done, _ = await asyncio.wait((woken,), timeout=keep_alive)
            if not done:
                yield b": keep-alive\n\n"


def log_messages(
    pieces: Sequence[bytes], cursor: str, cursor_at: Callable[[int, int], str] | None = None
) -> tuple[list[Message], str]:
    """The whole records of pieces of log that each begin with one, as read from that cursor, and
    the cursor behind them. `cursor_at`: see `queries.LogPart`."""
    found, offsets = [], offsets_of(cursor)
    offsets = [0] * len(pieces) if cursor_at else offsets + [0] * (len(pieces) - len(offsets))
    records = ((at, record) for at, data in enumerate(pieces) for record in segments.decode(data))
    for at, record in records:
        offsets[at] += segments.HEADER.size + len(record.data)
        cursor = cursor_at(at, offsets[at]) if cursor_at else cursor_of(offsets)
        told: dict[str, Any] = {"stream": _STREAMS.get(record.stream, "?"), "at": record.time}
        told |= {"rank": record.rank, "index": record.index}
        try:
            told["text"] = record.data.decode()
        except UnicodeDecodeError:  # bytes of another encoding, or half a character
            told["base64"] = base64.b64encode(record.data).decode()
        found.append(Message(cursor, "log", told))
    return found, cursor if cursor_at else cursor_of(offsets)
