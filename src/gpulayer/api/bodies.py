"""Bodies in constant memory: a request's into a file, a file's into an answer.

The event loop moves bytes alone; disk and digest are other threads' work, while more bytes move.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gpulayer.api.answers import Raw
from gpulayer.api.begun import Upload

PIECE_BYTES = 1 << 20
_PARTS_BEHIND = 16
"""So much of an upload may wait for the disk: a few MiB."""


async def written(request: Request, upload: Upload) -> None:
    """What comes is written and digested on another thread, while more comes. All of it is written
    when this raises too: its sender may go on from there."""
    parts: list[bytes] = []
    writing: asyncio.Future[None] | None = None

    async def write() -> None:
        while parts:
            data = b"".join(parts)
            parts.clear()
            await asyncio.to_thread(upload.write, data)

    try:
        async for chunk in request.stream():
            if not chunk:
                continue
            parts.append(chunk)
            if writing is not None and (writing.done() or len(parts) >= _PARTS_BEHIND):
                await writing
                writing = None
            if parts and writing is None:
                writing = asyncio.ensure_future(write())
    finally:
        if writing is not None:
            await writing


class Opened(Response):
    """The rest of an open file, in constant memory."""

    media_type = "application/octet-stream"

    def __init__(self, answer: Raw, file: BinaryIO, headers: Mapping[str, str]) -> None:
        self._file = file
        self.status_code, self.background = answer.status, None
        size = os.fstat(file.fileno()).st_size - file.tell()
        self.init_headers({**headers, "Content-Length": str(size)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            start = {"type": "http.response.start", "status": self.status_code}
            await send({**start, "headers": self.raw_headers})
            more = scope["method"] != "HEAD"
            ahead = self._read()
            try:
                while more:
                    data = await ahead
                    more = bool(data)
                    if more:
                        ahead = self._read()
                    await send({"type": "http.response.body", "body": data, "more_body": more})
            finally:
                await asyncio.wait((ahead,))
        finally:
            self._file.close()

    def _read(self) -> asyncio.Future[bytes]:
        """The next piece is read while one is sent."""
        return asyncio.ensure_future(asyncio.to_thread(self._file.read, PIECE_BYTES))
