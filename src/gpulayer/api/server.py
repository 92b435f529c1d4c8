"""The ASGI application: a request becomes a `Call`, a handler's answer becomes a response.

Everything that a handler raises is answered as `{"error": ...}` with the status of its slug. A
fault of our own is answered as `internal` and written to the log with its traceback.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as StarletteRoute, Router
from starlette.types import Receive, Scope, Send

from gpulayer._version import __version__
from gpulayer.api import sse
from gpulayer.api.admission import RETRY_SECONDS, Admission
from gpulayer.api.answers import Call, Raw, settle
from gpulayer.api.begun import Whole
from gpulayer.api.bodies import Opened, written
from gpulayer.api.guard import newer_client
from gpulayer.api.handlers import Handlers
from gpulayer.api.listener import PRIVATE
from gpulayer.api.meeting import Meetings, Side
from gpulayer.api.routes import ROUTES, Route
from gpulayer.api.streaming import Attending
from gpulayer.contracts.messages import WIRE
from gpulayer.contracts.principals import Principal
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.errors import GPULayerError, RefusedError, UsageError
from gpulayer.slugs import SLUGS

LOG = logging.getLogger("gpulayer.api")

IDENTITY = {"X-Gpulayer-Version": __version__, "X-Gpulayer-Wire": str(WIRE)}

DRAINED_BYTES = 256 << 20
"""What is read and dropped of a larger one, so that its sender hears the refusal: one that is still
sending when the connection ends would hear of a lost connection."""

BYTE_ROUTES = frozenset({"append_log"})
DUPLEX_ROUTES = frozenset({"join_stream", "serve_stream"})


class App:
    """Serves `handlers`. One instance per plane; all of it runs on one event loop."""

    def __init__(self, handlers: Handlers, admission: Admission | None = None) -> None:
        self._handlers = handlers
        self._admission = admission or Admission()
        self._meetings = Meetings(handlers.plane, IDENTITY)
        self._router = Router([self._route(route) for route in ROUTES])
        self._router.default = _no_such_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router(scope, receive, send)

    def _route(self, route: Route) -> StarletteRoute:
        handler: Callable[[Call], Any] = getattr(self._handlers, route.name)
        guard = self._handlers.guard

        async def endpoint(request: Request) -> Response:
            response = await answered(request)
            self._handlers.answered[route.name, response.status_code] += 1
            return response

        async def answered(request: Request) -> Response:
            is_unread = _has_body(request)
            try:
                call = self._admitted(request, route)
                if route.name in DUPLEX_ROUTES:
                    return _Attendance(self._meetings, handler(call), call.principal)
                with self._room_for(request, route):
                    body = await self._body(request, route, call)
                    is_unread = False
                    call = dataclasses.replace(call, body=body)
                    if route.is_told_by_body:
                        guard.check(route, call)
                    answer = guard.held(call.principal, handler(call))
                    if isinstance(answer, sse.Stream):
                        return _stream(answer, self._handlers.wakeups)
                    return _respond(await settle(answer, self._handlers.wakeups))
            except ClientDisconnect:
                return Response(status_code=400)
            except GPULayerError as error:
                error = guard.refused(route, error, _address(request))
                error = newer_client(request.scope["headers"], error)
                return _refuse(error, is_closing=is_unread)
            except Exception as error:
                LOG.exception("%s failed", route.name)
                fault = GPULayerError("internal", f"{type(error).__name__}: {error}")
                return _refuse(fault)

        return StarletteRoute(route.path, endpoint, methods=[route.method])

    def _room_for(self, request: Request, route: Route) -> AbstractContextManager[None]:
        if route.action != "job.submit":
            return nullcontext()
        told = request.headers.get("content-length", "")
        size = int(told) if told.isdigit() else route.body_bytes
        return self._admission.entered(min(size, route.body_bytes))

    def _admitted(self, request: Request, route: Route) -> Call:
        """The call without its body, which is not read for who may not make it."""
        is_private = request.scope.get("state", {}).get(PRIVATE) is True
        guard = self._handlers.guard
        address = _address(request)
        headers = request.scope["headers"]
        principal = guard.admit(
            headers,
            route,
            is_private=is_private,
            is_plain=request.scope.get("scheme") == "http",
            address=address,
        )
        nothing = None if route.method == "GET" else b""
        call = Call(
            request.path_params,
            request.query_params,
            nothing,
            principal,
            address,
            streams=sse.CONTENT_TYPE in request.headers.get("accept", ""),
            last_id=request.headers.get("last-event-id", ""),
            start=_start(request.headers.get("range", "")),
        )
        call = guard.named(call)
        if not route.is_told_by_body:
            guard.check(route, call)
        return call

    async def _body(self, request: Request, route: Route, call: Call) -> Any:
        if route.method == "GET":
            return None
        if route.name == "put_artifact":
            return await self._gone_on_with(request, call)
        if route.body_bytes == 0:
            return await self._spooled(request)
        parts, size = [], 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= route.body_bytes:
                parts.append(chunk)
            elif size > DRAINED_BYTES:
                break
        if size > route.body_bytes:
            raise RefusedError("too-large", f"the request is past {route.body_bytes >> 20} MiB")
        data = b"".join(parts)
        return data if route.name in BYTE_ROUTES else _parsed(data)

    async def _gone_on_with(self, request: Request, call: Call) -> Whole:
        """The same of a body that is kept where its connection ends, for its sender to go on."""
        begun, digest = self._handlers.begun, call.path["digest"]
        with begun.upload(call.principal, digest, call.number("offset")) as upload:
            try:
                await written(request, upload)
            except ConnectionAbortedError:
                raise ClientDisconnect from None  # it goes on elsewhere already
            except OSError:
                upload.drop()
                raise
            return upload.whole()

    async def _spooled(self, request: Request) -> str:
        """The body in a file, in constant memory. The handler moves or removes it."""
        handle, path = tempfile.mkstemp(prefix="upload-", dir=self._handlers.uploads)
        try:
            with os.fdopen(handle, "wb") as sink:
                async for chunk in request.stream():
                    sink.write(chunk)
        except BaseException:  # the client left in the middle, or the disk is full
            os.unlink(path)
            raise
        return path


def _address(request: Request) -> str:
    """Of the other side; empty for the private socket."""
    return "" if request.client is None else request.client.host


def _start(text: str) -> int:
    """The first byte that `Range: bytes=N-` asks for. Whoever asks otherwise gets the whole."""
    found = _RANGE.fullmatch(text)
    return int(found[1]) if found else 0


_RANGE = re.compile(r"bytes=(\d{1,18})-")


def _has_body(request: Request) -> bool:
    headers = request.headers
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        body = _DECODER.decode(data.decode()) if data else {}
    except (ValueError, RecursionError) as error:
        raise UsageError("usage", f"the request is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise UsageError("usage", "the request is not a JSON object")
    return body


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


_DECODER = json.JSONDecoder(parse_constant=_no_number, object_pairs_hook=_object)


def _respond(answer: Any) -> Response:
    if isinstance(answer, Raw):
        headers = {**IDENTITY, **answer.headers}
        if answer.file is not None:
            return Opened(answer, answer.file, headers)
        kind = "application/octet-stream"  # where the headers name none
        return Response(answer.data, answer.status, headers=headers, media_type=kind)
    data = json.dumps(answer, separators=(",", ":")).encode()
    return Response(data, headers=IDENTITY, media_type="application/json")


def _stream(answer: sse.Stream, wakeups: Wakeups) -> Response:
    headers = {**IDENTITY, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    body = sse.body(answer, wakeups)
    return StreamingResponse(body, headers=headers, media_type=sse.CONTENT_TYPE)


def _refuse(error: GPULayerError, *, is_closing: bool = False) -> Response:
    """`is_closing`: the body was not read, and shall not be taken for another request."""
    slug = SLUGS.get(error.code, SLUGS["internal"])
    data = json.dumps({"error": error.to_json()}).encode()
    headers = {**IDENTITY, "Connection": "close"} if is_closing else dict(IDENTITY)
    if error.code == "plane-busy":
        headers["Retry-After"] = str(RETRY_SECONDS)
    return Response(data, slug.status, headers=headers, media_type="application/json")


class _Attendance(Response):
    """One side of a stream: the request's body is read while the answer's is written."""

    def __init__(self, meetings: Meetings, at: Attending, principal: Principal) -> None:
        self._meetings, self._at, self._principal = meetings, at, principal
        self.status_code, self.background = 200, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        side = Side(self._principal, receive, send)
        try:
            await self._meetings.attend(self._at.stream, self._at.side, side)
        except GPULayerError as error:
            await _refuse(error, is_closing=True)(scope, receive, send)


async def _no_such_path(scope: Scope, receive: Receive, send: Send) -> None:
    error = UsageError("usage", f"{scope['method']} {scope['path']} is not a route of this plane")
    response = _refuse(error)
    response.status_code = 404
    await response(scope, receive, send)
