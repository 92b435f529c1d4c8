"""A real plane, reachable in this process, over a Unix socket, over TCP and over TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpulayer.api.handlers import Handlers
from gpulayer.api.listener import PRIVATE, Listener
from gpulayer.api.server import App
from gpulayer.api.strangers import Limits
from gpulayer.artifacts.port import ArtifactStore
from gpulayer.artifacts.store import LocalArtifacts
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.settings import Settings
from gpulayer.control_plane.submission import Submission
from gpulayer.control_plane.wakeups import Wakeups
from gpulayer.storage.logs import LogFolder
from gpulayer.storage.store import Store

FINISH_SECONDS = 60.0


class Host:
    """The process that a plane would live in."""

    kind = "local"
    home = ""
    names = ("lab.example", "*.lab.example")

    def __init__(self, uploads: str) -> None:
        self.uploads = uploads

    def stop(self) -> None: ...

    def takeover(self, wish: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def processes(self) -> list[dict[str, Any]]:
        return []

    def front(self) -> Mapping[str, Any]:
        return {}


class ServedPlane:
    """Lives in `folder`, and may be ended and begun anew there. Reconciles as a plane does."""

    def __init__(
        self, folder: Path, artifacts: ArtifactStore | None = None, **settings: Any
    ) -> None:
        self._folder = folder
        self._settings = Settings(**settings)
        self._sockets = tempfile.mkdtemp(prefix="gpl-")
        self.socket = self._sockets + "/p.sock"
        self.artifacts = artifacts or LocalArtifacts(folder / "artifacts")
        for name in ("logs", "uploads"):
            (folder / name).mkdir()
        self._loop = asyncio.new_event_loop()
        self._listener: Listener | None = None
        self._listening: dict[str, socket.socket] = {}
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.begin()

    def begin(self) -> None:
        """A new plane over what there is."""
        self.store = Store(self._folder / "db.sqlite")
        self.plane = ControlPlane(
            self.store,
            SystemClock(),
            SystemIds(),
            Wakeups(),
            LogFolder(self._folder / "logs"),
            self.artifacts,
            self._settings,
        )
        self._ended = threading.Event()
        self._ticking = threading.Thread(target=self._tick)
        self._ticking.start()

    def serve(self) -> None:
        """On the Unix socket `socket`."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(self.socket)
        self._listen(sock, self.socket)

    def serve_tcp(self, tls: ssl.SSLContext | None = None) -> tuple[str, int]:
        """On a free port of loopback."""
        sock = socket.create_server(("127.0.0.1", 0))
        self._listen(sock, "", tls)
        host, port = sock.getsockname()
        return host, port

    def hang_up(self) -> None:
        """The plane answers who is parked and is gone."""
        self._ended.set()
        self._ticking.join()
        self.plane.wakeups.close()
        if self._listener is not None:
            self._in_loop(self._listener.close())
            self._listener = None
        for path, sock in self._listening.items():
            sock.close()
            if path:
                os.unlink(path)
        self._listening.clear()
        self.store.close()

    def close(self) -> None:
        self.hang_up()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        os.rmdir(self._sockets)

    def submit(self, *argv: str, **spec: Any) -> str:
        body = {"name": "job", "workload": {"kind": "command", "command": list(argv) or ["true"]}}
        jobs = self.plane.submit([Submission(body | spec)]).result(FINISH_SECONDS)
        return str(jobs[0].id)

    def _listen(self, sock: socket.socket, path: str, tls: ssl.SSLContext | None = None) -> None:
        sock.listen(64)
        self._listening[path] = sock
        host = Host(str(self._folder / "uploads"))
        app = App(Handlers(self.plane, self.artifacts, host))
        self._listener = Listener(app if path else _everybody_is_local(app))
        if path:
            self._in_loop(self._listener.open(sock))
        else:
            self._in_loop(self._listener.open_to_strangers(sock, tls, Limits()))

    def _tick(self) -> None:
        while not self._ended.wait(self._settings.tick_seconds):
            self.plane.reconcile().result(FINISH_SECONDS)

    def _in_loop(self, task: Any) -> None:
        asyncio.run_coroutine_threadsafe(task, self._loop).result(FINISH_SECONDS)


def _everybody_is_local(app: App) -> Any:
    """Over TCP without a credential: what is tried here is the channel, and not who may use it."""

    async def marked(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": {PRIVATE: True}}, receive, send)

    return marked
