"""The worker's connection to its supervisor.

One thread (the owner of `serve`) reads; any thread may ask. Nobody waits for a silence: the end of
the connection is the end of the link, at once, and every question still open is answered by it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from gpulayer._version import __version__
from gpulayer.runtime import frames
from gpulayer.worker.events import Attached

Answered = Callable[[dict[str, Any], bytes], None]
"""Called on the reading thread with the answer and the bytes that followed it."""


class SupervisorGone(OSError):
    """The connection ended before the answer."""


class SupervisorLink:
    """One connection. Make a new one after it has ended."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._connection = frames.Connection(sock)
        self._lock = threading.Lock()
        self._seq = 0
        self._open: dict[int, Answered] = {}
        self._ended = False

    @classmethod
    def connect(cls, path: str) -> SupervisorLink:
        """Say hello to the supervisor at `path`; an older agent's connection ends by it.

        Raises `OSError` or `EOFError` where nobody answers, `frames.Refused` where it will not.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
            link = cls(sock)
            link._connection.call("hello", role="agent", wire=frames.WIRE, version=__version__)
        except BaseException:
            sock.close()
            raise
        return link

    def listed(self) -> tuple[Attached, ...]:
        """What the supervisor has. Only before `serve` begins."""
        return tuple(
            Attached(
                task["task_id"],
                task["fence"],
                task["job_id"],
                task["index"],
                task.get("note") or {},
            )
            for task in self._connection.call("list")["tasks"]
        )

    def serve(self) -> None:
        """Read until the connection ends, then answer what is open with `error.code` `gone`."""
        try:
            while True:
                kind, payload, _ = self._connection.recv()
                if kind != frames.JSON:
                    continue
                data = b""
                if payload.get("bytes"):
                    data = self._connection.recv()[1]
                with self._lock:
                    answered = self._open.pop(payload.get("seq", 0), None)
                if answered is not None:
                    answered(payload, data)
        except (OSError, EOFError, frames.ProtocolError):
            pass
        finally:
            self.close()
            self._connection.close()

    def ask(self, op: str, answered: Answered | None = None, **fields: Any) -> None:
        """Send a question; returns before the answer. On an ended link nothing happens, except
        that `answered` is called with the error `gone`."""
        with self._lock:
            message = {"op": op, **fields}
            seq = 0
            if not self._ended:
                if answered is not None:  # without a number nothing is answered
                    message["seq"] = seq = self._seq = self._seq + 1
                    self._open[seq] = answered
                try:
                    self._connection.send_json(message)
                    return
                except OSError:
                    self._open.pop(seq, None)
        if answered is not None:
            answered(_GONE, b"")

    def expect(self, answered: Answered) -> int:
        """A number for a question that goes inside another one; `answered` as for `ask`."""
        with self._lock:
            self._seq += 1
            seq = self._seq
            if not self._ended:
                self._open[seq] = answered
                return seq
        answered(_GONE, b"")
        return seq

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask and wait; never on the reading thread. Raises `Refused` or `SupervisorGone`."""
        future: Future[dict[str, Any]] = Future()
        self.ask(op, lambda reply, _: future.set_result(reply), **fields)
        return answer(future.result())

    def close(self) -> None:
        """Safe from any thread, and twice."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            left = list(self._open.values())
            self._open.clear()
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was first
        for answered in left:
            answered(_GONE, b"")


def answer(reply: dict[str, Any]) -> dict[str, Any]:
    """What `answered` was called with, or its error raised as `Refused` or `SupervisorGone`."""
    if reply is _GONE:
        raise SupervisorGone("the supervisor has ended")
    return frames.answer(reply)


_GONE: dict[str, Any] = {"error": {"code": "gone", "message": "the supervisor has ended"}}
