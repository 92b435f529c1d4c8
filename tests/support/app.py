"""The API of a plane as one call after another, without sockets: a real app, driven by ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpulayer.api.listener import PRIVATE


@dataclass(frozen=True, slots=True)
class Told:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    data: bytes

    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def text(self) -> str:
        return self.data.decode()


def ask(
    app: Any,
    method: str,
    target: str,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    is_private: bool = True,
) -> Told:
    """One exchange. `is_private`: by the plane's own socket, so as its own user."""
    path, _, query = target.partition("?")
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
        "client": ("127.0.0.1", 1),
        "state": {PRIVATE: True} if is_private else {},
    }
    incoming = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await asyncio.Event().wait()  # the client stays
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    start = sent[0]
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Told(start["status"], found, b"".join(m.get("body", b"") for m in sent[1:]))
