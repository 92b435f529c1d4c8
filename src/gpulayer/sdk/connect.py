"""Which plane this process talks to.

Nothing said: the caller's local plane, started when there is none, on the first use. Otherwise
what the innermost open `connect(...)` block of the process says.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from gpulayer.errors import RefusedError

if TYPE_CHECKING:
    from gpulayer.sdk.client import Client

_lock = threading.RLock()
_default: Client | None = None
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

    `embedded=True`: a plane inside this process, on the usual data folder; a path: on that
    folder; `":memory:"`: on none. Leaving it cancels the unfinished jobs that were submitted
    through it. Without arguments: the local plane.
    """
    if url is not None or token is not None:
        raise RefusedError(
            "not-yet",
            "this version cannot use a served plane",
            why="it runs jobs on this machine",
            hint="gl.connect()",
        )
    if embedded is not False:
        from gpulayer.sdk.embedded import open_embedded

        return Connection(open_embedded(None if embedded is True else os.fspath(embedded)))
    return Connection(_local())


def current() -> Client:
    """The client that this process uses now."""
    global _default
    with _lock:
        if _open:
            return _open[-1]
        if _default is None:
            _default = _local()
        return _default


def _local() -> Client:
    from gpulayer.sdk.client import Client
    from gpulayer.sdk.local import ensure_plane
    from gpulayer.sdk.origin import Submitter
    from gpulayer.sdk.places import Places

    if os.environ.get("GPULAYER_URL"):
        raise RefusedError(
            "not-yet",
            "this version cannot use a served plane",
            where="GPULAYER_URL",
            hint="unset GPULAYER_URL",
        )
    places = Places.find()
    return Client(lambda: ensure_plane(places), Submitter(places))


def _renew_lock() -> None:
    """In a forked child: another thread of the parent may have held it. The clients themselves
    begin anew (`Client.forget`)."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)
