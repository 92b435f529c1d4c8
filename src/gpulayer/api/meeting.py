"""Where the two sides of a stream meet: a visitor's request and a worker's, each with two bodies.

    visitor ==frames==> plane ==frames==> worker          each its own connection, so one stream
            <==frames==       <==frames==                 holds up nobody else

What one side sends is written to the other before more of it is read, so memory is flat and the
slower side sets the pace. Of what comes from the worker the plane reads along: that the command
runs, in which words, and how it ended are the job's record. A stream ends with either side, with
the credential of either, and with the plane: a visitor then hears why in a last frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Send

from gpulayer.api.duplex import JSON_BYTES
from gpulayer.contracts.principals import Principal
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.stream_rules import MEET_SECONDS, Stream
from gpulayer.control_plane.wakeups import right_topic
from gpulayer.errors import GPULayerError, RefusedError, UnreachableError
from gpulayer.runtime import frames

FAREWELL_SECONDS = 5.0
"""How long a side may take to end what it says once the other has ended."""
VISITOR, WORKER = "visitor", "worker"


class Side:
    """One request, its body and its answer."""

    def __init__(self, principal: Principal, receive: Receive, send: Send) -> None:
        self.principal = principal
        self._receive = receive
        self._send = send
        self._coming: asyncio.Task[bytes | None] | None = None
        self._is_begun = self._is_over = self._has_said_all = False

    def coming(self) -> asyncio.Task[bytes | None]:
        """The next bytes; None at the end, or where the side is gone."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._read())
        return self._coming

    async def read(self) -> bytes | None:
        data = await self.coming()
        self._coming = None
        return data

    async def begin(self, headers: Mapping[str, str]) -> None:
        self._is_begun = True
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        raw += [(b"content-type", b"application/octet-stream"), (b"connection", b"close")]
        await self._send({"type": "http.response.start", "status": 200, "headers": raw})

    async def write(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self) -> None:
        """Twice-safe."""
        if self._coming is not None:
            self._coming.cancel()
        if self._is_begun and not self._is_over:
            self._is_over = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _read(self) -> bytes | None:
        while not self._has_said_all:
            message = await self._receive()
            self._has_said_all = not message.get("more_body", False)
            if data := message.get("body"):
                return bytes(data)
        return None


@dataclass(slots=True)
class Meeting:
    stream: Stream
    sides: dict[str, Side]
    both: asyncio.Event
    over: asyncio.Event


class Meetings:
    """Of one plane; belongs to its event loop."""

    def __init__(self, plane: ControlPlane, headers: Mapping[str, str]) -> None:
        self._plane = plane
        self._headers = headers
        self._open: dict[str, Meeting] = {}

    async def attend(self, stream_id: str, role: str, side: Side) -> None:
        """Until the stream is over. Raises where it never began; nothing was answered then."""
        stream = self._plane.streams.get(stream_id)
        meeting = self._open.get(stream_id)
        if meeting is None:
            meeting = Meeting(stream, {}, asyncio.Event(), asyncio.Event())
            self._open[stream_id] = meeting
        if role in meeting.sides:
            raise RefusedError("usage", "somebody is at that side of the stream already")
        meeting.sides[role] = side
        if role == WORKER:
            stream.is_handed = True
        if len(meeting.sides) == 2:
            meeting.both.set()
        try:
            await self._until_met(meeting, side)
            if role == VISITOR:
                await self._relay(meeting)
            else:
                await meeting.over.wait()
        finally:
            meeting.over.set()
            self._open.pop(stream_id, None)
            await side.finish()
            self._plane.streams.ended(stream, None, "")

    async def _until_met(self, meeting: Meeting, side: Side) -> None:
        """Neither side speaks before, so that what comes from one is the sign of its end."""
        met = asyncio.ensure_future(meeting.both.wait())
        over = asyncio.ensure_future(meeting.over.wait())
        spoilt = asyncio.ensure_future(self._spoilt(meeting))
        try:
            await asyncio.wait(
                (met, over, spoilt, side.coming()),
                timeout=MEET_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not met.done() or over.done():
                why = spoilt.result() if spoilt.done() else "the other side did not come"
                raise UnreachableError(
                    "worker-unreachable",
                    "the stream did not begin",
                    why=why,
                    hint="gpulayer workers",
                    job_id=meeting.stream.order.job_id,
                )
        finally:
            for wait in (met, over, spoilt):
                wait.cancel()

    async def _relay(self, meeting: Meeting) -> None:
        visitor, worker = meeting.sides[VISITOR], meeting.sides[WORKER]
        await visitor.begin(self._headers)
        await worker.begin(self._headers)
        told = _Told()
        up = asyncio.ensure_future(_copy(visitor, worker))
        down = asyncio.ensure_future(self._copy_down(meeting.stream, worker, visitor, told))
        spoilt = asyncio.ensure_future(self._spoilt(meeting))
        try:
            await asyncio.wait((up, down, spoilt), return_when=asyncio.FIRST_COMPLETED)
            why = ""
            if spoilt.done():
                why = spoilt.result()
            elif up.done():
                await worker.finish()  # the visitor has left, or has heard all that it wants
                await asyncio.wait((down,), timeout=FAREWELL_SECONDS)
                why = "" if told.has_ended else "its visitor left"
            if not told.has_ended:
                why = why or "its worker's agent ended, or lost the way to the plane"
                await visitor.write(frames.encode_json({"event": "lost", "message": why}))
            self._plane.streams.ended(meeting.stream, told.exit_code, why)
            if not up.done():
                await asyncio.wait((up,), timeout=FAREWELL_SECONDS if not spoilt.done() else 0)
        finally:
            for task in (up, down, spoilt):
                task.cancel()
            await asyncio.gather(up, down, spoilt, return_exceptions=True)
            await worker.finish()

    async def _copy_down(self, stream: Stream, worker: Side, visitor: Side, told: _Told) -> None:
        decoder = frames.Decoder(JSON_BYTES)
        try:
            while data := await worker.read():
                decoder.feed(data)
                for kind, payload, _ in decoder.frames():
                    if kind == frames.JSON:
                        await self._hear(stream, payload, told)
                await visitor.write(data)
        except frames.ProtocolError:
            return

    async def _hear(self, stream: Stream, message: Mapping[str, Any], told: _Told) -> None:
        """The record is written before the visitor hears that its command runs."""
        kind = message.get("event")
        is_first = stream.started is None and kind in ("started", "ended")
        if is_first and message.get("argv") is not None:  # one that could not start is told, too
            words = [str(word) for word in message["argv"]]
            await asyncio.wrap_future(self._plane.streams.started(stream, words))
        if kind == "ended":
            told.has_ended = True
            code = message.get("exit_code")
            told.exit_code = code if type(code) is int else None

    async def _spoilt(self, meeting: Meeting) -> str:
        """Why it must end, once it must."""
        rights = [side.principal for side in meeting.sides.values() if side.principal.credential_id]
        topics = [right_topic(right.credential_id) for right in rights]
        wakeups = self._plane.wakeups
        while True:
            with wakeups.subscribe("streams", *topics) as ticket:
                if not wakeups.is_open:
                    return "the plane is ending, or hands over to another one"
                try:
                    for right in rights:
                        self._plane.require(right)
                except GPULayerError as error:
                    return f"{error.message}: {error.why}" if error.why else error.message
                await asyncio.wrap_future(ticket.future)


@dataclass(slots=True)
class _Told:
    """What the worker has said."""

    has_ended: bool = False
    exit_code: int | None = None


async def _copy(source: Side, sink: Side) -> None:
    while data := await source.read():
        await sink.write(data)
