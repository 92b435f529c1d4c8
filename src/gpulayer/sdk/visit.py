"""A visit to a running job: one command inside it, and this terminal's streams, keys and signals.

    visit = Visit(wire, job, argv, ...)      # refused here, where it can't be
    report = visit.relay()                   # until the command has ended
    interrupts.end_as(report)

The way goes through the plane to the worker, over connections that the worker makes. The command
ends with this process: a visitor who goes, in whatever way, has it hung up. Main thread only.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from gpulayer.api.paths import job_path
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.contracts.stream_words import PIECE, PING_SECONDS, WINDOW_BYTES
from gpulayer.errors import UnreachableError
from gpulayer.runtime import frames
from gpulayer.runtime.exits import OURS_CODE
from gpulayer.sdk.caught import Caught
from gpulayer.sdk.interrupts import QUICK_SECONDS, ExitReport
from gpulayer.sdk.streams import Outlet
from gpulayer.sdk.terminal_guard import guarded

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire
    from gpulayer.sdk.terminal import Screen

FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
PRESSES = 3
"""So many Ctrl-C within `interrupts.QUICK_SECONDS` leave."""


class Visit:
    def __init__(
        self,
        wire: Wire,
        selector: str,
        argv: Sequence[str],
        *,
        node: int = 0,
        screen: Screen | None = None,
        with_stdin: bool = True,
        environ: dict[str, str] | None = None,
        begun: Callable[[dict[str, Any]], object] = lambda told: None,
    ) -> None:
        """`argv` empty: the user's shell. `screen`: the command gets a terminal, mirrored to this
        one. `begun` hears {job, node, worker, cwd, pid} once the command runs.

        Raises `job-not-running`, `worker-unreachable`, `too-many-streams`, `not-allowed`, ...
        """
        self._clock = SystemClock()
        wish = {
            "stream": SystemIds().token(26),
            "kind": "exec",
            "argv": list(argv),
            "node": node,
            "terminal": None if screen is None else screen.settings(),
            "set": environ or {},
        }
        self._about = wire.call("POST", job_path(selector, "streams"), wish)
        self.job_id = str(self._about["job"])
        self._way = wire.stream(f"/v1/streams/{self._about['stream']}")
        self._screen = screen
        self._begun = begun
        self._stdin = -1 if not with_stdin else 0 if screen is None else screen.fd
        if self._stdin < 0 and screen is None:
            self._way.send(frames.INPUT, b"")
        self._credit = WINDOW_BYTES
        self._outlets = {frames.STDOUT: Outlet(1), frames.STDERR: Outlet(2)}
        self._outlets[frames.TERMINAL] = self._outlets[frames.STDOUT]
        self._ended: dict[str, Any] | None = None
        self._presses: list[float] = []
        self._hung_up = 0
        self._said = self._clock.monotonic()

    def relay(self) -> ExitReport:
        """Carry bytes, keys and signals until the command has ended. Raises `worker-unreachable`
        where the way to it is lost; the terminal is as it was then, too."""
        with ExitStack() as undo:
            undo.callback(self._way.close)
            self._caught = undo.enter_context(Caught())
            if self._screen is not None:
                undo.enter_context(guarded(self._screen.fd))
                undo.callback(self._screen.close)
                self._screen.mirror_signals(False)
                self._screen.enter()
            try:
                while self._ended is None and not self._hung_up:
                    self._turn()
                while any(outlet.is_full for outlet in self._outlets.values()):
                    self._flush_outlets()
            except EOFError as error:
                raise self._lost(str(error)) from error
            self._say_goodbye()
        return self._report()

    # --- the loop ---------------------------------------------------------------------------

    def _turn(self) -> None:
        poll = select.poll()
        poll.register(self._caught.fd, select.POLLIN)
        way, is_full = self._way, False
        for outlet in set(self._outlets.values()):
            if not outlet.has_left:
                # No event asked for still tells of a reader that left (POLLERR).
                poll.register(outlet.fd, select.POLLOUT if outlet.is_full else 0)
                is_full = is_full or outlet.is_full
        poll.register(way.fileno(), way.events & ~(select.POLLIN if is_full else 0))
        stdin = self._stdin if self._credit > 0 and not way.is_full else -1
        if stdin >= 0:
            poll.register(stdin, select.POLLIN)
        pending = way.is_pending and not is_full
        wait = 0.0 if pending else max(0.0, self._said + PING_SECONDS - self._clock.monotonic())
        ready = dict(poll.poll(wait * 1000))
        if self._caught.fd in ready:
            for signum in self._caught.arrived():
                self._on_signal(signum)
        self._look_at_outlets(ready)
        if stdin in ready:
            self._read_input(stdin)
        if not is_full and (way.fileno() in ready or pending):
            self._hear()
        if self._clock.monotonic() - self._said >= PING_SECONDS:
            self._said = self._clock.monotonic()
            way.send_json({"op": "ping"})
        way.flush()

    def _look_at_outlets(self, ready: dict[int, int]) -> None:
        for stream, frame in ((1, frames.STDOUT), (2, frames.STDERR)):
            outlet = self._outlets[frame]
            events = ready.get(outlet.fd, 0)
            if events & select.POLLOUT:
                outlet.flush()
            if events & (select.POLLERR | select.POLLNVAL) and not outlet.has_left:
                outlet.leave()
            if events and outlet.has_left:
                self._way.send_json({"op": "closed", "stream": stream})

    def _flush_outlets(self) -> None:
        poll = select.poll()
        for outlet in {o for o in self._outlets.values() if o.is_full}:
            poll.register(outlet.fd, select.POLLOUT)
        poll.register(self._caught.fd, select.POLLIN)
        ready = dict(poll.poll())
        if self._caught.fd in ready and set(self._caught.arrived()) & {*FORWARDED, signal.SIGHUP}:
            for outlet in self._outlets.values():
                outlet.leave()
        self._look_at_outlets(ready)

    def _read_input(self, fd: int) -> None:
        try:
            data = os.read(fd, min(PIECE, self._credit))
        except BlockingIOError:
            return
        except OSError:
            data = b""  # hung up
        self._way.send(frames.INPUT, data)
        self._credit -= len(data)
        if not data:
            self._stdin = -1
            if self._screen is not None:
                self._hung_up = signal.SIGHUP

    def _hear(self) -> None:
        for kind, payload in self._way.receive():
            if kind in self._outlets:
                outlet = self._outlets[kind]
                had_left = outlet.has_left
                outlet.put(payload)
                if outlet.has_left and not had_left:
                    stream = 2 if kind == frames.STDERR else 1
                    self._way.send_json({"op": "closed", "stream": stream})
            elif kind == frames.JSON:
                self._on_event(payload)
        if self._way.has_ended and self._ended is None:
            raise EOFError("the plane ended it")

    def _on_event(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "started":
            self._begun({**self._about, **event})
        elif kind == "took":
            self._credit += int(event["bytes"])
        elif kind == "ended":
            self._ended = event
        elif kind == "lost":
            raise EOFError(str(event.get("message", "")))

    def _on_signal(self, signum: int) -> None:
        if signum == signal.SIGWINCH:
            if self._screen is not None:
                settings = self._screen.settings()
                size = {"rows": settings["rows"], "cols": settings["cols"]}
                self._way.send_json({"op": "winsize", **size})
        elif signum == signal.SIGTSTP:
            self._caught.stop_here()
        elif signum == signal.SIGHUP:
            self._hung_up = signum
        elif signum in FORWARDED:
            now = self._clock.monotonic()
            self._presses = [at for at in self._presses if now - at <= QUICK_SECONDS] + [now]
            if len(self._presses) >= PRESSES:
                self._hung_up = signum
            self._way.send_json({"op": "signal", "signum": signum})

    # --- the end ----------------------------------------------------------------------------

    def _say_goodbye(self) -> None:
        """So that the plane's last bytes are not lost to a reset."""
        self._way.finish()
        end = self._clock.monotonic() + 1.0
        try:
            while not (self._way.is_flushed and (self._way.has_ended or self._hung_up)):
                poll = select.poll()
                poll.register(self._way.fileno(), self._way.events)
                left = end - self._clock.monotonic()
                if left <= 0 or not (self._way.is_pending or poll.poll(left * 1000)):
                    return
                self._way.flush()
                self._way.receive()
        except EOFError:
            pass  # it was first

    def _report(self) -> ExitReport:
        if self._ended is None:
            message = "left: the command is hung up"
            return ExitReport("left", 128 + self._hung_up, message=message)
        ended = self._ended
        message = str(ended.get("message") or "")
        reason = str(ended.get("code") or ("refused" if ended.get("refused") else ""))
        if ended.get("task_over") and not message:
            reason, message = "job-ended", f"{self.job_id} has ended, and this with it"
        code, number = ended.get("exit_code"), ended.get("signal")
        return ExitReport(
            "ended",
            OURS_CODE if code is None else int(code),
            reason=reason,
            message=message,
            signal=None if number is None else int(number),
        )

    def _lost(self, why: str) -> UnreachableError:
        return UnreachableError(
            "worker-unreachable",
            f"the way into {self.job_id} is lost",
            why=why,
            hint=f"gpulayer status {self.job_id}",
            job_id=self.job_id,
        )
