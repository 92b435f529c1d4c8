"""The plane of this very process, spoken to as if it were far away.

An embedded plane has no socket to go through, so its clients call the handlers directly, in their
own threads. Same routes, same bodies, same errors as over HTTP, without the bytes.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote, urlsplit

from gpulayer.api.answers import Call, Raw, settle_blocking
from gpulayer.api.begun import Whole
from gpulayer.api.handlers import Handlers
from gpulayer.api.routes import ROUTES, Route
from gpulayer.api.wire import Reply
from gpulayer.errors import UsageError

PIECE_BYTES = 1 << 20


class Direct:
    """A client of `handlers`. Any number of threads may use one instance."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, park: float = 0.0
    ) -> Any:
        """As `wire.Wire.call`; `park` is already part of the path's query."""
        return self._answer(method, path, {} if body is None else body)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        park: float = 0.0,
        sink: BinaryIO | None = None,
        tries: int | None = None,
    ) -> Reply:
        """As `wire.Wire.request`. Nothing is cut off here."""
        answer = self._answer(method, path, body or b"")
        if not isinstance(answer, Raw):
            return Reply(200, {}, json.dumps(answer).encode())
        data = answer.data
        if answer.file is not None:
            with answer.file as source:
                if sink is None:
                    data = source.read()
                else:
                    shutil.copyfileobj(source, sink, PIECE_BYTES)
        return Reply(200, {k.lower(): v for k, v in answer.headers.items()}, data)

    def close(self) -> None:
        """Nothing is held."""

    def abandon(self) -> None:
        """Calls in progress end with the plane."""

    def _answer(self, method: str, path: str, body: Any) -> Any:
        split = urlsplit(path)
        route, found = _route(method, split.path)
        call = Call(found, dict(parse_qsl(split.query)), body)
        if route.body_bytes == 0:
            call = replace(call, body=self._uploaded(route, call))
        answer = getattr(self._handlers, route.name)(call)
        return settle_blocking(answer, self._handlers.wakeups)

    def _uploaded(self, route: Route, call: Call) -> str | Whole:
        """The handler takes an upload as a file, and removes it."""
        os.makedirs(self._handlers.uploads, exist_ok=True)
        body = io.BytesIO(call.body) if isinstance(call.body, bytes) else call.body
        if route.name == "put_artifact":
            begun, offset = self._handlers.begun, call.number("offset")
            with begun.upload(call.principal, call.path["digest"], offset) as upload:
                shutil.copyfileobj(body, upload, PIECE_BYTES)
                return upload.whole()
        fd, path = tempfile.mkstemp(dir=self._handlers.uploads)
        with os.fdopen(fd, "wb") as file:
            shutil.copyfileobj(body, file, PIECE_BYTES)
        return path


def _route(method: str, path: str) -> tuple[Route, dict[str, str]]:
    known = _PLAIN.get((method, path))
    if known is not None:
        return known, {}
    for pattern, route in _PATTERNS:
        match = pattern.fullmatch(path)
        if match is not None and route.method == method:
            return route, {name: unquote(value) for name, value in match.groupdict().items()}
    raise UsageError("usage", f"{method} {path} is not a route of this plane")


_PLAIN = {(route.method, route.path): route for route in ROUTES if "{" not in route.path}
_PATTERNS: list[tuple[re.Pattern[str], Route]] = [
    (re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path)), route)
    for route in ROUTES
    if "{" in route.path
]
