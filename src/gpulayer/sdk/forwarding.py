"""A port of a running job, reachable from this machine's loopback.

    forwarding = Forwarding(wire, job, port, local=0, ...)    # refused here, where it can't be
    forwarding.address                                        # ("127.0.0.1", 41235)
    why = forwarding.serve()                                  # until the job ends

One stream stands for the whole and tells of the job's end; each connection is one more, with a
thread and a connection to the plane of its own, so that none holds up another.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpulayer.api.paths import job_path
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.contracts.stream_words import PIECE, PING_SECONDS, WINDOW_BYTES
from gpulayer.errors import GPULayerError, RefusedError, UnreachableError
from gpulayer.runtime import frames
from gpulayer.runtime.sinks import Sink

if TYPE_CHECKING:
    from gpulayer.api.duplex import Duplex
    from gpulayer.api.wire import Wire

LOOPBACK = "127.0.0.1"
BACKLOG = 128


class Forwarding:
    """`said` gets lines for the person: connections that could not be made."""

    def __init__(
        self,
        wire: Wire,
        selector: str,
        port: int,
        local: int,
        *,
        node: int = 0,
        said: Callable[[str], object] = lambda line: None,
    ) -> None:
        """Listens once this returns. Raises `port-in-use`, and what `visit.Visit` raises."""
        self._wire = wire
        self._said = said
        self._clock = SystemClock()
        self._listener = _listen(selector, port, local)
        try:
            self._wish = {"node": node, "port": port}
            self.about = _open(wire, selector, {"kind": "forward", **self._wish})
            self.job_id = str(self.about["job"])
            self._way = wire.stream(f"/v1/streams/{self.about['stream']}")
        except BaseException:
            self._listener.close()
            raise
        self._last = ""

    @property
    def address(self) -> tuple[str, int]:
        name, port = self._listener.getsockname()
        return str(name), int(port)

    def serve(self) -> None:
        """Until the job ends. Raises `worker-unreachable` where the way to it is lost."""
        way = self._way
        poll = select.poll()
        poll.register(self._listener.fileno(), select.POLLIN)
        said = self._clock.monotonic()
        try:
            while True:
                poll.register(way.fileno(), way.events)
                wait = said + PING_SECONDS - self._clock.monotonic()
                ready = dict(poll.poll(0 if way.is_pending else max(0.0, wait) * 1000))
                if (way.fileno() in ready or way.is_pending) and self._has_ended():
                    return
                if self._listener.fileno() in ready:
                    self._accept()
                if self._clock.monotonic() - said >= PING_SECONDS:
                    said = self._clock.monotonic()
                    way.send_json({"op": "ping"})
                way.flush()
        except EOFError as error:
            raise UnreachableError(
                "worker-unreachable",
                f"the way to {self.job_id} is lost",
                why=str(error),
                hint=f"gpulayer status {self.job_id}",
                job_id=self.job_id,
            ) from error
        finally:
            self._listener.close()
            way.close()

    def _has_ended(self) -> bool:
        for kind, payload in self._way.receive():
            if kind != frames.JSON:
                continue
            if payload.get("event") == "lost":
                raise EOFError(str(payload.get("message", "")))
            if payload.get("event") == "ended":
                if payload.get("task_over"):
                    self._way.finish()
                    self._way.flush()
                    return True
                raise EOFError(str(payload.get("message", "")))
        if self._way.has_ended:
            raise EOFError("the plane ended it")
        return False

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return  # gone again
        threading.Thread(target=self._carry, args=(sock,), name="forward", daemon=True).start()

    def _carry(self, sock: socket.socket) -> None:
        wire = self._wire.aside()
        try:
            with sock:
                wish = {"kind": "connect", "forward": self.about["stream"], **self._wish}
                about = _open(wire, self.job_id, wish)
                way = wire.stream(f"/v1/streams/{about['stream']}")
                try:
                    _Connection(sock, way, self._clock).run()
                finally:
                    way.close()
        except EOFError as error:
            self._complain(str(error))
        except GPULayerError as error:
            self._complain(f"{error.message}: {error.why}" if error.why else error.message)
        except OSError:
            pass  # whoever connected has gone
        finally:
            wire.close()

    def _complain(self, why: str) -> None:
        """Not again while it is the same."""
        if why and why != self._last:
            self._last = why
            self._said(f"a connection was ended: {why}")


class _Connection:
    def __init__(self, sock: socket.socket, way: Duplex, clock: SystemClock) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._way = way
        self._clock = clock
        self._sink = Sink(os.dup(sock.fileno()), lambda size: None, self._half_close)
        self._credit = WINDOW_BYTES
        self._reads = True
        self._ended = False
        self._said = clock.monotonic()

    def run(self) -> None:
        """Until both directions have ended. EOFError says why it ended before."""
        try:
            while not self._ended or self._sink.is_full:
                self._turn()
            self._way.finish()
            self._way.flush()
        finally:
            self._sink.close()

    def _turn(self) -> None:
        way, sink = self._way, self._sink
        poll = select.poll()
        poll.register(way.fileno(), way.events & ~(select.POLLIN if sink.is_full else 0))
        if self._reads and self._credit > 0 and not way.is_full:
            poll.register(self._sock.fileno(), select.POLLIN)
        if sink.is_full:
            poll.register(sink.fd, select.POLLOUT)
        pending = way.is_pending and not sink.is_full
        wait = max(0.0, self._said + PING_SECONDS - self._clock.monotonic())
        ready = dict(poll.poll(0 if pending else wait * 1000))
        if sink.is_full and sink.fd in ready:
            sink.push()
        if self._reads and self._sock.fileno() in ready:
            self._read()
        if not sink.is_full and (way.fileno() in ready or pending):
            self._hear()
        if self._clock.monotonic() - self._said >= PING_SECONDS:
            self._said = self._clock.monotonic()
            way.send_json({"op": "ping"})
        way.flush()

    def _read(self) -> None:
        try:
            data = self._sock.recv(min(PIECE, self._credit))
        except BlockingIOError:
            return
        self._credit -= len(data)
        self._reads = bool(data)
        self._way.send(frames.INPUT, data)

    def _hear(self) -> None:
        for kind, payload in self._way.receive():
            if kind == frames.STDOUT and payload:
                self._sink.put(payload)
            elif kind == frames.STDOUT:
                self._sink.finish()
            elif kind == frames.JSON:
                self._on_event(payload)
        if self._way.has_ended and not self._ended:
            raise EOFError("the plane ended it")

    def _on_event(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "took":
            self._credit += int(event["bytes"])
        elif kind == "lost" or (kind == "ended" and event.get("refused")):
            raise EOFError(str(event.get("message", "")))
        elif kind == "ended":
            self._ended = True

    def _half_close(self) -> None:
        self._sock.shutdown(socket.SHUT_WR)


def _open(wire: Wire, selector: str, wish: dict[str, Any]) -> dict[str, Any]:
    body = {"stream": SystemIds().token(26), **wish}
    return dict(wire.call("POST", job_path(selector, "streams"), body))


def _listen(selector: str, port: int, local: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, local), backlog=BACKLOG)
    except OSError as error:
        what = f"port {local} cannot be listened on"
        if error.errno == errno.EADDRINUSE:
            what = f"port {local} is in use on this machine"
        raise RefusedError(
            "port-in-use",
            what,
            why=(error.strerror or str(error)).lower(),
            hint=f"gpulayer forward {selector} {port}:0",
        ) from error
