"""HTTP/1.1 JSON with the standard library alone: over a Unix socket, TCP or TLS.

The command line pays for each import, so this client builds no models and knows no framework.
Every call is safe to repeat: submits carry an idempotency key, reports a sequence number, log
bytes an offset. So a reset, an early end or a 503 (a plane that is handing over) is tried again,
through `revive`, which starts a plane where there is none. A redirect is never followed: the token
belongs to one server.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from gpulayer._version import WIRE, __version__
from gpulayer.api.endpoints import Endpoint, Unix
from gpulayer.api.http1 import Connection
from gpulayer.errors import GPULayerError, RefusedError, UnreachableError
from gpulayer.slugs import error_from_json

if TYPE_CHECKING:
    from gpulayer.api.duplex import Duplex

BUSY_SECONDS = 60.0
"""How long a plane that answers 429 is asked again."""
ANSWER_SECONDS = 20.0
"""Longest silence of a plane that answers at once; parked calls add what they park."""
STREAM_SECONDS = 40.0
"""More than a plane waits for the other side of a stream."""

_GONE = (ConnectionError, FileNotFoundError)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    data: bytes

    def json(self) -> Any:
        return json.loads(self.data) if self.data else {}


class Wire:
    """One keep-alive connection to a plane. Not for use by two threads at once.

    `revive` is called when nobody listens; it returns once a plane does, or raises. Without it
    an `UnreachableError` is raised.
    """

    def __init__(
        self,
        where: str | Endpoint,
        *,
        token: Callable[[], str] | None = None,
        revive: Callable[[], None] | None = None,
        tries: int = 6,
    ) -> None:
        """`where`: an endpoint, or the path of a socket. `token` is asked for each exchange, since
        one that goes on for long may be replaced."""
        self.endpoint: Endpoint = Unix(where) if isinstance(where, str) else where
        self.plane_version: str | None = None
        """Version of the plane that answered last."""
        self._token = token
        self._revive = revive
        self._tries = tries
        self._connection: Connection | None = None
        self._abandoned = False

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        park: float = 0.0,
    ) -> Any:
        """Send JSON, get JSON. Raises the plane's error as the exception it names."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        return self.request(method, path, data, park=park).json()

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
        """One exchange, repeated while the plane comes and goes: `tries` times, if not as often as
        this wire does. `park`: seconds that the plane may hold the call on purpose. `sink`: a file
        that takes the answer's bytes, behind those that it holds; a try that brought some does not
        count."""
        sent = self._sent(headers or {})
        last: Exception | None = None
        left = most = tries or self._tries
        while left:
            left, place = left - 1, 0 if sink is None else sink.tell()
            try:
                reply = self._admitted(method, path, body, sent, ANSWER_SECONDS + park, sink)
            except TimeoutError as error:
                self.close()
                raise self._unreachable(
                    f"the plane took the call and did not answer within {ANSWER_SECONDS:.0f} s", ""
                ) from error
            except _GONE as error:
                last = error
                self.close()
                if self._abandoned:
                    break
                if sink is not None and sink.tell() > place:
                    left = most
                if left and self._revive is not None:
                    self._revive()
                continue
            if reply.status == 503:
                self.close()
                if left and self._revive is not None:
                    self._revive()
                continue
            if reply.status >= 300:
                raise self._refusal(reply)
            return reply
        why = str(last) if last else "it is handing over"
        raise self._unreachable("", why) from last

    def stream(self, path: str) -> Duplex:
        """An exchange of its own whose both bodies flow at once. It is tried once: what it began
        cannot be begun again. The plane may take `STREAM_SECONDS` until the other side is there.
        Raises as `call`."""
        from gpulayer.api.duplex import Duplex

        def refuse(status: int, headers: Mapping[str, str], data: bytes) -> GPULayerError:
            return self._refusal(Reply(status, headers, data))

        try:
            return Duplex.open(self.endpoint, path, self._sent({}), STREAM_SECONDS, refuse)
        except (TimeoutError, *_GONE) as error:
            raise self._unreachable("", str(error)) from error

    def aside(self) -> Wire:
        """Another connection to the same plane, for another thread. It revives nothing."""
        return Wire(self.endpoint, token=self._token, tries=1)

    def _sent(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of every call, and these."""
        sent = {
            "Content-Type": "application/json",
            "X-Gpulayer-Wire": str(WIRE),
            "X-Gpulayer-Version": __version__,
            **headers,
        }
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token()}"
        return sent

    def close(self) -> None:
        """End the connection; the next call makes a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def interrupt(self) -> None:
        """End the exchange in progress on another thread, which sees a lost connection."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            try:
                # Not TLS's own shutdown, which is no affair of two threads.
                socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
            except OSError:
                pass  # it has just ended by itself

    def abandon(self) -> None:
        """For good: the exchange in progress on another thread ends as `plane-unreachable`, and
        each to come fails when its connection does. Nothing is revived any more."""
        self._abandoned = True
        self.interrupt()

    def _admitted(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None,
        headers: Mapping[str, str],
        timeout: float,
        sink: BinaryIO | None,
    ) -> Reply:
        """One exchange, made again while the plane says that it is busy and when to come back."""
        waited = 0.0
        while True:
            if not isinstance(body, bytes | None):
                body.seek(0)
            if sink is not None and (place := sink.tell()):
                headers = {**headers, "Range": f"bytes={place}-"}
            reply = self._exchange(method, path, body, headers, timeout, sink)
            wait = _wished_wait(reply)
            waited += wait
            if not wait or waited > BUSY_SECONDS or self._abandoned:
                return reply
            select.select((), (), (), wait)

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO | None,
        headers: Mapping[str, str],
        timeout: float,
        sink: BinaryIO | None,
    ) -> Reply:
        if self._connection is None:
            self._connection = Connection(self.endpoint)
        answer = self._connection.exchange(method, path, headers, body, timeout, sink)
        if answer.will_close:
            self.close()
        self.plane_version = answer.headers.get("x-gpulayer-version")
        self._check_wire(answer.headers)
        return Reply(answer.status, answer.headers, answer.data)

    def _check_wire(self, headers: Mapping[str, str]) -> None:
        wire = headers.get("x-gpulayer-wire")
        if wire is not None and wire != str(WIRE):
            raise RefusedError(
                "version-mismatch",
                f"GPUlayer {__version__} cannot talk to the plane of version "
                f"{headers.get('x-gpulayer-version', '?')}",
                where="" if self._is_local else str(self.endpoint),
                why=f"this side speaks wire {WIRE}, the plane speaks wire {wire}",
                hint="gpulayer stop" if self._is_local else "gpulayer version",
            )

    def _refusal(self, reply: Reply) -> GPULayerError:
        if reply.status < 400 or "x-gpulayer-wire" not in reply.headers:
            to = reply.headers.get("location", "")
            said = reply.data[:200].decode(errors="replace")
            return RefusedError(
                "not-a-server",
                f"what answers at {self.endpoint} is no GPUlayer server: status {reply.status}",
                why=f"it points to {to[:200]}, and a token goes to one server alone"
                if to
                else said,
                hint="gpulayer help not-a-server",
            )
        try:
            body = reply.json()["error"]
        except (ValueError, KeyError, TypeError):
            return GPULayerError(
                "internal",
                f"the plane answered {reply.status}",
                why=reply.data[:200].decode(errors="replace"),
            )
        error = error_from_json(body)
        if not self._is_local:
            error.where = error.where or str(self.endpoint)
        return error

    def _unreachable(self, message: str, why: str) -> UnreachableError:
        where = str(self.endpoint)
        if self._is_local:
            code, hint = "plane-unreachable", "gpulayer doctor"
            return UnreachableError(
                code, message or "no plane answers", where=where, why=why, hint=hint
            )
        message = message or f"nothing answers at {where}"
        return UnreachableError(
            "server-unreachable", message, where=where, why=why, hint="gpulayer use local"
        )

    @property
    def _is_local(self) -> bool:
        return isinstance(self.endpoint, Unix)


def _wished_wait(reply: Reply) -> float:
    """Seconds until the plane wants to be asked again, each client a little earlier or later; 0
    where it named none."""
    told = reply.headers.get("retry-after", "") if reply.status == 429 else ""
    if not (told.isascii() and told.isdigit()):
        return 0.0
    spread = int.from_bytes(os.urandom(2)) / 65_536
    return min(int(told[:4]), BUSY_SECONDS) * (0.75 + spread / 2)
