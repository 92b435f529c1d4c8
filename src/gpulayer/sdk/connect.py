"""Which plane this process talks to.

What the innermost open `connect(...)` block of the process says; else the server of
`GPULAYER_URL`, or the one that `gpulayer use` chose; else the caller's local plane, started when
there is none, on the first use. `on="here"` is the local plane, whatever was chosen.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from gpulayer.errors import UsageError

if TYPE_CHECKING:
    from gpulayer.sdk.client import Client
    from gpulayer.sdk.servers import Elsewhere, Server

_lock = threading.RLock()
_default: Client | None = None
_here: Client | None = None
_beyond: Client | None = None
_open: list[Client] = []


class Connection:
    """An open `connect`. Its client is the process's default until it ends; `with` ends it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        with _lock:
            _open.append(client)

    def close(self) -> None:
        """Give the default back to whoever had it before. Safe to call twice."""
        with _lock:
            if self.client in _open:
                _open.remove(self.client)
        self.client.close()

    def __enter__(self) -> Client:
        return self.client

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


def connect(
    url: str | None = None,
    token: str | None = None,
    *,
    embedded: bool | str | os.PathLike[str] = False,
) -> Connection:
    """Choose a plane for this process.

    `url` and `token`: that server; `url` may be the name of one that was logged in to.
    `embedded=True`: a plane inside this process, on the usual data folder; a path: on that
    folder; `":memory:"`: on none. Leaving it cancels the unfinished jobs that were submitted
    through it. Without arguments: what this process uses anyway.
    """
    if url is not None:
        if embedded is not False:
            raise UsageError("usage", "a plane is embedded or at a url, not both")
        return Connection(_far(_server(url, token)))
    if token is not None:
        raise UsageError("usage", "a token needs the url of its server")
    if embedded is not False:
        from gpulayer.sdk.embedded import open_embedded

        return Connection(open_embedded(None if embedded is True else os.fspath(embedded)))
    return Connection(_chosen())


def current(on: str | None = None) -> Client:
    """The client that this process uses now, for a job that is to run `on` (None: not said).

    `here` is this machine's plane, whatever was chosen. With no server chosen, anywhere else means
    the workers of this machine's plane: such a job takes nothing of this process's world along.
    """
    global _default, _here, _beyond
    with _lock:
        if _open and not (on == "here" and _open[-1].is_far):
            return _open[-1]
        if on == "here":
            if _here is None:
                _here = _local()
            return _here
        if _default is None:
            _default = _chosen()
        if on is None or _default.is_far:
            return _default
        if _beyond is None:
            from gpulayer.sdk.servers import LocalPlane

            _beyond = _far(LocalPlane())
        return _beyond


def client_of(server: Elsewhere | None) -> Client:
    """A client of `server`; None: of this machine's plane, which is started when there is none."""
    return _local() if server is None else _far(server)


def _chosen() -> Client:
    from gpulayer.sdk.places import Places
    from gpulayer.sdk.servers import chosen

    return client_of(chosen(Places.find().home))


def _local() -> Client:
    from gpulayer.sdk.client import Client
    from gpulayer.sdk.local import ensure_plane
    from gpulayer.sdk.origin import Submitter
    from gpulayer.sdk.places import Places

    places = Places.find()
    return Client(lambda: ensure_plane(places), Submitter(places))


def _far(server: Elsewhere) -> Client:
    from gpulayer.sdk.client import Client
    from gpulayer.sdk.far import FarSubmitter

    return Client(server.wire, FarSubmitter(), is_far=True)


def _server(url: str, token: str | None) -> Server:
    from gpulayer.sdk.places import Places
    from gpulayer.sdk.servers import Servers, from_url

    if "://" in url:
        return from_url(url, token or "", "gl.connect")
    if token is not None:
        raise UsageError("usage", f"the server {url!r} has its token already")
    return Servers(Places.find().home).get(url)


def _renew_lock() -> None:
    """In a forked child: another thread of the parent may have held it. The clients themselves
    begin anew (`Client.forget`)."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)
