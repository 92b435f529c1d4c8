"""Serves an ASGI application on sockets that can be taken away and given back.

uvicorn's protocol class is used without uvicorn's server: that one takes over signals, ticks ten
times a second and binds sockets with open permissions. Here a listening socket is accepted on
through a duplicate, so that closing it leaves the kernel's backlog to whoever holds the original:
that is what makes a hand-over invisible to clients.

The private Unix socket is marked as such in each request's `state`; a socket that strangers can
reach is guarded by `api.strangers`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from asyncio import sslproto
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from gpulayer.api.endpoints import SEND_BYTES
from gpulayer.api.strangers import Limits, Stranger
from gpulayer.runtime.peers import peer_uid

BACKLOG = 4096
"""Clients that may wait while a plane imports or hands over; the kernel caps it (somaxconn)."""

KEEP_ALIVE_SECONDS = 3600
"""Connections of agents and notebooks stay; a dead peer is noticed by the kernel."""

TLS_BUFFER = 32 << 10
"""Bytes that are read from a TLS connection at once: two of the largest records (RFC 8446)."""

PRIVATE = "private"
"""In a request's `state`: it came by the socket that only this user can reach. Said by the
listener alone, so that no way of losing a peer's address can be taken for it."""


class Listener:
    """All methods belong to the thread of the event loop."""

    def __init__(self, app: Any) -> None:
        self._config = Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._config.load()
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []

    async def open(self, sock: socket.socket) -> None:
        """Accept on the private `sock`, which must be listening. Again after `close`."""
        loop = asyncio.get_running_loop()
        # listen(2) is called again by this, so the depth must be given again too; and from then
        # on the kernel names this process as the one at the other end (SO_PEERCRED).
        server = await loop.create_server(self._private, sock=sock.dup(), backlog=BACKLOG)
        self._servers.append(server)

    async def open_to_strangers(
        self, sock: socket.socket, tls: ssl.SSLContext | None, limits: Limits
    ) -> None:
        """Accept on a TCP socket as well, within these limits."""
        # By default asyncio keeps 256 KiB for each TLS connection, whatever it carries.
        sslproto.SSLProtocol.max_size = TLS_BUFFER
        loop = asyncio.get_running_loop()
        self._servers.append(
            await loop.create_server(
                lambda: Stranger(self._config, self._state, limits),
                sock=sock.dup(),
                backlog=BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=limits.header_seconds if tls is not None else None,
                ssl_shutdown_timeout=limits.header_seconds if tls is not None else None,
            )
        )

    async def close(self) -> None:
        """Stop accepting, wait until every request in flight is answered, end idle connections.

        Whoever parks requests must have been told to answer them before. Safe to call twice.
        """
        while self._servers:
            self._servers.pop().close()
        while self._state.tasks:
            await asyncio.wait(set(self._state.tasks))
        for connection in list(self._state.connections):
            connection.shutdown()

    def _private(self) -> asyncio.Protocol:
        return _OwnUserOnly(
            config=self._config, server_state=self._state, app_state={PRIVATE: True}, _loop=None
        )


class _OwnUserOnly(HttpToolsProtocol):
    """Ends a connection of another user before a byte of it is read. Folder and socket are closed
    to others already; this holds where somebody has opened both."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock.family != socket.AF_UNIX or peer_uid(sock) != os.getuid():
            transport.abort()
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
