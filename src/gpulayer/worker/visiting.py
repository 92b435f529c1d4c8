"""One stream at work on the worker: a command, or a connection to a port, and its visitor.

All of it in one thread, which polls the way to the plane, the connection to the supervisor, and our
ends of the command's streams. `worker.streams` begins and ends it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

from gpulayer.clock import Clock
from gpulayer.contracts.messages import StreamOrder
from gpulayer.contracts.stream_words import PIECE, PING_SECONDS, WINDOW_BYTES
from gpulayer.runtime import frames, terminal
from gpulayer.runtime.sinks import Sink
from gpulayer.worker.channel import Way

SILENCE_SECONDS = 0.25
"""After a command's end, how long its output may pause where others hold it open."""
CONNECT_SECONDS = 10.0


Enter = Callable[[StreamOrder], tuple[list[str], str] | None]
"""The words that bring an order's command into the container of its task, and the mark of its
processes; None where the task has no container."""


class Visiting:
    """`close` it, whatever came of it."""

    def __init__(
        self,
        order: StreamOrder,
        way: Way,
        supervisor: frames.Connection,
        clock: Clock,
        enter: Enter,
    ) -> None:
        self._order = order
        self._way = way
        self._supervisor = supervisor
        self._clock = clock
        self._enter = enter
        self._sink: Sink | None = None
        self._sources: dict[int, str] = {}
        """Descriptors of outputs, and the frame of each."""
        self._master = -1
        self._socket: socket.socket | None = None
        self._said = 0.0
        self._ended: dict[str, Any] | None = None
        self._silent_at = 0.0
        self._task_over = self._is_alone = False
        self._clean: list[str] = []

    def begin(self) -> None:
        if self._order.kind == "exec":
            self._begin_command()
        else:
            self._supervisor.call("visit", watch=True, **self._whom())
            if self._order.kind == "connect":
                self._connect()
            self._way.send_json({"event": "started", "argv": []})

    def run(self) -> None:
        """Until both have ended, all that is to be said is on its way. EOFError: one is gone."""
        self._said = self._clock.monotonic()
        while not self._is_done():
            self._turn()
        self._farewell()

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()
        for fd in self._sources:
            os.close(fd)
        self._sources = {}
        if self._socket is not None:
            self._socket.close()

    # --- beginning --------------------------------------------------------------------------

    def _whom(self) -> dict[str, Any]:
        return {"task_id": self._order.task_id, "fence": self._order.fence}

    def _begin_command(self) -> None:
        words = list(self._order.argv)
        clean = self._supervisor.call("redact", task_id=self._order.task_id, texts=words)["texts"]
        inside = self._enter(self._order)
        if inside is None:
            what: dict[str, Any] = {"argv": words or None, "set": dict(self._order.set) or None}
        else:
            what = {"argv": inside[0], "mark": inside[1]}
        fds = self._lay()
        try:
            self._supervisor.call("visit", fds=fds, **what, **self._whom())
        finally:
            for fd in set(fds.values()):
                os.close(fd)
        self._clean = clean

    def _lay(self) -> dict[str, int]:
        """The command's ends; ours are kept."""
        wanted = self._order.terminal
        if wanted is not None:
            master, slave = terminal.controlling(dict(wanted))
            os.set_inheritable(master, False)
            os.set_inheritable(slave, False)
            self._master = master
            self._sources[master] = frames.TERMINAL
            self._sink = Sink(os.dup(master), self._took)
            return {"terminal": slave}
        theirs_in, ours_in = os.pipe()
        self._sink = Sink(ours_in, self._took)
        found = {"stdin": theirs_in}
        for name, frame in (("stdout", frames.STDOUT), ("stderr", frames.STDERR)):
            reader, found[name] = os.pipe()
            os.set_blocking(reader, False)
            self._sources[reader] = frame
        return found

    def _connect(self) -> None:
        port = self._order.port
        try:
            sock = socket.create_connection(("localhost", port), CONNECT_SECONDS)
        except OSError as error:
            why = error.strerror or str(error)
            raise OSError(0, f"port {port} of the job: {why.lower()}") from error
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._sources[os.dup(sock.fileno())] = frames.STDOUT
        self._sink = Sink(
            os.dup(sock.fileno()), self._took, closing=lambda: sock.shutdown(socket.SHUT_WR)
        )

    # --- at work ----------------------------------------------------------------------------

    def _is_done(self) -> bool:
        if self._order.kind == "connect":
            half_open = self._sources or (self._sink is not None and self._sink.is_open)
            is_silent = self._clock.monotonic() >= self._silent_at
            return not half_open or (self._task_over and is_silent)
        if self._ended is None:
            return self._task_over and self._order.kind == "forward"
        is_silent = self._clock.monotonic() >= self._silent_at
        was_killed = self._ended.get("signal") == signal.SIGKILL  # by the task's end, perhaps
        return is_silent or not (self._sources or (was_killed and not self._task_over))

    def _turn(self) -> None:
        poll = select.poll()
        poll.register(self._way.fileno(), self._way.events)
        if not self._is_alone:
            poll.register(self._supervisor.fileno(), select.POLLIN)
        if self._way.is_full:
            self._hush()
        else:
            for fd in self._sources:
                poll.register(fd, select.POLLIN)
        sink = self._sink
        if sink is not None and sink.is_full:
            poll.register(sink.fd, select.POLLOUT)
        is_news = self._way.is_pending or self._supervisor.has_waiting
        ready = dict(poll.poll(0 if is_news else self._patience()))
        if sink is not None and sink.fd in ready:
            sink.push()
        speaks = self._supervisor.fileno() in ready or self._supervisor.has_waiting
        if speaks and not self._is_alone:
            self._hear_supervisor()
        for fd in [fd for fd in self._sources if fd in ready]:
            self._copy(fd)
        if self._way.fileno() in ready or self._way.is_pending:
            self._hear_visitor()
        if self._clock.monotonic() - self._said >= PING_SECONDS:
            self._said = self._clock.monotonic()
            if not self._way.is_full:
                self._way.send_json({"event": "ping"})
        self._way.flush()

    def _patience(self) -> float:
        """Milliseconds."""
        now = self._clock.monotonic()
        wait = self._said + PING_SECONDS - now
        if self._ended is not None or self._task_over:
            wait = min(wait, self._silent_at - now)
        return max(0.0, wait) * 1000

    def _copy(self, fd: int) -> None:
        try:
            data = os.read(fd, PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # EIO: the last holder of a terminal has let go; or a connection was reset
        frame = self._sources[fd]
        if data:
            self._way.send(frame, data)
            self._hush()
            return
        del self._sources[fd]
        os.close(fd)
        if self._order.kind == "connect":
            self._way.send(frame, b"")

    def _hear_supervisor(self) -> None:
        try:
            arrived = self._supervisor.ready()
        except EOFError:
            self._ended = {"exit_code": 125, "message": "the worker's supervisor ended"}
            self._task_over = self._is_alone = True
            self._hush()
            return
        for _, event, _ in arrived:
            kind = event.get("event")
            if kind == "started":
                told = {"pid": event["pid"], "cwd": event["cwd"], "argv": self._clean}
                self._way.send_json({"event": "started", **told})
            elif kind == "ended":
                self._ended = {k: event[k] for k in ("exit_code", "signal", "code", "message")}
                self._task_over = self._task_over or bool(event.get("task_over"))
                self._hush()
            elif kind == "task-ended":
                self._task_over = True
                self._hush()

    def _hush(self) -> None:
        """The silence that ends an ended command's output begins now."""
        self._silent_at = self._clock.monotonic() + SILENCE_SECONDS

    def _hear_visitor(self) -> None:
        try:
            for kind, payload in self._way.receive():
                if kind == frames.INPUT and self._sink is not None:
                    self._put(self._sink, payload)
                elif kind == frames.JSON:
                    self._obey(payload)
        except (KeyError, TypeError, ValueError) as error:
            raise EOFError(f"the visitor says what is no word: {error}") from error
        if self._way.has_ended and self._ended is None:
            raise EOFError("the visitor left")

    def _put(self, sink: Sink, data: bytes) -> None:
        if data:
            sink.put(data)
        elif self._master >= 0:
            sink.put(terminal.end_of_input(self._master))
        else:
            sink.finish()
        if sink.backlog > WINDOW_BYTES:
            raise ValueError("more input than was asked for")

    def _obey(self, message: dict[str, Any]) -> None:
        op = message.get("op")
        if op == "winsize" and self._master >= 0:
            rows, cols = (min(65_535, max(1, int(message[key]))) for key in ("rows", "cols"))
            terminal.resize(self._master, rows, cols)
        elif op == "signal" and self._order.kind == "exec":
            self._supervisor.send_json({"op": "signal_visit", "signum": int(message["signum"])})
        elif op == "closed":
            frame = {1: frames.STDOUT, 2: frames.STDERR}.get(int(message["stream"]))
            for fd in [fd for fd, name in self._sources.items() if name == frame]:
                del self._sources[fd]
                os.close(fd)

    def _took(self, size: int) -> None:
        """So much of what the visitor sent is out of our hands."""
        self._way.send_json({"event": "took", "bytes": size})

    # --- the end ----------------------------------------------------------------------------

    def _farewell(self) -> None:
        ending = {"argv": self._clean, **(self._ended or {"exit_code": None, "message": ""})}
        self._way.send_json({"event": "ended", "task_over": self._task_over, **ending})
        self._way.finish()
