"""A worker's bytes straight from and to the object store of its plane, where both can do so.

The plane gives an address that is good for one artifact for a while; keys stay with the plane. What
comes is compared with its name by whoever asked; what goes is read and compared by the plane before
it is an artifact. Whatever goes wrong, the way through the plane is still there: the store cannot
be reached from here, its certificate is not known here, it does not like the address. Then it is
not tried again for a while.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, BinaryIO, Protocol, cast

from gpulayer.api.transfers import ARTIFACT, STORING_SECONDS, Body
from gpulayer.artifacts import web
from gpulayer.clock import Clock
from gpulayer.errors import GPULayerError, UnreachableError, UsageError

LEAST_BYTES, MOST_BYTES = 8 << 20, 5 << 30
"""A smaller upload goes through the plane: asking costs more. A larger one no store takes whole."""
AGAIN_SECONDS = 600.0
SILENT_SECONDS = 20.0


class Caller(Protocol):
    """What is needed of `wire.Wire`."""

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, park: float = 0.0
    ) -> Any: ...


class Direct:
    """Of one worker and its plane. Thread-safe."""

    def __init__(self, clock: Clock, look: Callable[[], object]) -> None:
        """`look` is called while bytes go, and raises to end that."""
        self._clock = clock
        self._look = look
        self._latest: deque[str] = deque(maxlen=64)
        self._lock = Lock()
        self._not_before = float("-inf")
        self._is_there = True
        self.asked = self.carried = 0
        """Questions for an address, and transfers that went past the plane."""

    def begin(self) -> None:
        """The plane may be another one."""
        with self._lock:
            self._is_there = True

    def download(self, client: Caller, digest: str, sink: BinaryIO) -> bool:
        """Whether the bytes behind those that `sink` holds came; perhaps some did anyhow. Whoever
        asks for the same again was not content, and gets it through the plane, which compares."""
        if not self._may_try():
            return False
        if digest in self._latest:
            self._latest.remove(digest)
            return False
        url = self._asked(client, "GET", f"{ARTIFACT}{digest}/link").get("url")
        if not isinstance(url, str):
            return False
        if not self._tried(lambda: self._fetch(url, sink)):
            return False
        self._latest.append(digest)
        return True

    def upload(self, client: Caller, digest: str, body: Body, size: int) -> bool:
        """Whether it is stored. Raises what the plane says of what came."""
        if not (LEAST_BYTES <= size <= MOST_BYTES and self._may_try()):
            return False
        path = f"{ARTIFACT}{digest}"
        offer = self._asked(client, "POST", f"{path}/offer", {"size": size})
        url, name = offer.get("url"), offer.get("name")
        if not (isinstance(url, str) and isinstance(name, str)):
            return False
        body.seek(0)
        if not self._tried(lambda: web.upload(url, cast("BinaryIO", body), size, SILENT_SECONDS)):
            return False
        client.call("POST", f"{path}/arrived", {"name": name}, park=STORING_SECONDS)
        return True

    def _fetch(self, url: str, sink: BinaryIO) -> None:
        web.download(
            url, sink, most=1 << 62, look=self._look, silent_seconds=SILENT_SECONDS, tries=2
        )

    def _may_try(self) -> bool:
        with self._lock:
            return self._is_there and self._clock.monotonic() >= self._not_before

    def _asked(
        self, client: Caller, method: str, path: str, body: dict[str, object] | None = None
    ) -> dict[str, object]:
        with self._lock:
            self.asked += 1
        try:
            answer: dict[str, object] = client.call(method, path, body)
        except UnreachableError:
            raise
        except UsageError:
            answer = {}  # an older plane knows no such route
        except GPULayerError:
            return {}  # whatever it is, the way through the plane says it better
        if not answer.get("url"):
            with self._lock:
                self._is_there = False
        return answer

    def _tried(self, transfer: Callable[[], None]) -> bool:
        try:
            transfer()
        except web.WebError:
            with self._lock:
                self._not_before = self._clock.monotonic() + AGAIN_SECONDS
            return False
        with self._lock:
            self.carried += 1
        return True
