"""The API of a plane in memory, asked as a stranger would ask it, without a socket or a thread.

door = Knocking(env)
door.ask("GET", "/v1/jobs", token=door.token("viewer"))     # (200, {"jobs": []})
with door.held("POST", "/v1/worker/acquire", body, token=t) as answer:
    ...                                                     # parked meanwhile
answer()                                                    # (401, {...})
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gpulayer.api import credentials
from gpulayer.api.credentials import Secret
from gpulayer.api.handlers import Handlers
from gpulayer.api.listener import PRIVATE
from gpulayer.api.server import App
from gpulayer.contracts.principals import LOCAL, CredentialKind, Role
from gpulayer.control_plane.enrolment import Enrolment, Grant
from tests.support.env import Env
from tests.support.served_plane import Host

Answer = tuple[int, Any]
SECONDS = 30.0


class Knocking:
    """Over the plane that `env` has now."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.handlers = Handlers(env.plane, env.artifacts, Host(f"{env.folder}/artifacts"))
        self._app = App(self.handlers)
        self._loop = asyncio.new_event_loop()
        self.headers: dict[str, str] = {}
        """Of the last answer."""

    def close(self) -> None:
        self._loop.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        private: bool = False,
        headers: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """Status and JSON."""
        asked = self._ask(method, path, body, token, private, headers)
        return self._loop.run_until_complete(asyncio.wait_for(asked, SECONDS))

    @contextmanager
    def held(self, method: str, path: str, body: Any, token: str) -> Iterator[Callable[[], Answer]]:
        """A call that is being held; what it was answered is asked for afterwards."""
        call = self._loop.create_task(self._ask(method, path, body, token, False, ()))
        for _ in range(20):
            self._loop.run_until_complete(asyncio.sleep(0))
        assert not call.done(), call.result()
        yield lambda: self._loop.run_until_complete(asyncio.wait_for(call, SECONDS))

    def token(self, role: str, owner: str = "") -> str:
        secret = self.made(CredentialKind.CLIENT)
        grant = Grant(Role(role), name=role, owner=owner)
        self.env.plane.mint(secret.presented, grant, LOCAL).result(0)
        return secret.reveal()

    def session(self, name: str, **grant: Any) -> str:
        """A worker that has enrolled."""
        code, secret = self.code(**grant), self.made(CredentialKind.WORKER)
        self.env.plane.enrol(Enrolment(code.presented, secret.presented, name)).result(0)
        return secret.reveal()

    def code(self, role: str = "worker", **grant: Any) -> Secret:
        code = self.made(CredentialKind.JOIN)
        self.env.plane.invite(code.presented, Grant(Role(role), **grant), LOCAL).result(0)
        return code

    def made(self, kind: CredentialKind) -> Secret:
        return credentials.make(kind, self.env.ids)

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any,
        token: str | None,
        private: bool,
        headers: Sequence[tuple[str, str]],
    ) -> Answer:
        data = body if isinstance(body, bytes) else b"" if body is None else _json(body)
        sent = [*headers, ("authorization", f"Bearer {token}")] if token else list(headers)
        pure, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": pure,
            "raw_path": pure.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent],
            "client": None if private else ("192.0.2.7", 4711),
            "server": ("plane", 8765),
            "scheme": "https",
            "state": {PRIVATE: True} if private else {},
        }
        said: list[Mapping[str, Any]] = []
        gone = asyncio.Event()
        parts = [data]

        async def receive() -> dict[str, Any]:
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            said.append(message)

        await self._app(scope, receive, send)
        gone.set()
        raw = b"".join(message.get("body", b"") for message in said[1:])
        self.headers = {name.decode(): value.decode() for name, value in said[0]["headers"]}
        try:
            answer = json.loads(raw) if raw else None
        except ValueError:
            answer = raw
        return said[0]["status"], answer


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()
