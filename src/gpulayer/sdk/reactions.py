"""What an attached client does about signals, keys that became signals, and a stopped job."""

from __future__ import annotations

import os
import signal

from gpulayer.clock import SystemClock
from gpulayer.sdk import interrupts, terminal
from gpulayer.sdk.interrupts import Ladder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpulayer.sdk.caught import Caught
    from gpulayer.sdk.plane_side import PlaneSide
    from gpulayer.sdk.streams import Streams
    from gpulayer.sdk.terminal import Screen

STOP_SECONDS = 0.3
"""How long a job may take to stop by itself after Ctrl-Z before it is stopped."""


class Reactions:
    """Belongs to the loop of `sdk.attach`."""

    def __init__(
        self,
        send: Callable[[bytes | dict[str, Any]], None],
        plane: PlaneSide,
        screen: Screen | None,
        streams: Streams,
        caught: Caught,
        say: Callable[[str], None],
    ) -> None:
        """`send` carries keys (bytes) or an order to the job."""
        self.job_id = ""
        self.has_started = False
        self.has_limit = False
        """The job has a time limit."""
        self.has_left = False
        """The person does not wait for the end any more."""
        self._send = send
        self._plane = plane
        self._screen = screen
        self._has_screen = "terminal" in streams.kinds.values()
        self._is_terminal = streams.mode == "terminal" and screen is not None
        self._caught = caught
        self._say = say
        self._clock = SystemClock()
        self._ladder = Ladder()
        self._stop_by: float | None = None

    @property
    def is_stopping(self) -> bool:
        """Ctrl-Z was passed on, and the job has not stopped yet: `look` again soon."""
        return self._stop_by is not None

    def job_started(self) -> None:
        self.has_started = True
        if self._is_terminal and self._screen is not None:
            self._screen.enter()

    def job_stopped(self) -> None:
        """So does its client, as a bare command would. Returns once it goes on."""
        self._stop_by = None
        if self._screen is not None:
            self._screen.restore()
        if self.has_started:
            more = "; its time limit goes on" if self.has_limit else ""
            self._tell(f"{self.job_id} is stopped{more}")
        self._caught.stop_here()
        if self._is_terminal and self._screen is not None and self.has_started:
            self._screen.enter()
            self._resize()
        self._signal(signal.SIGCONT)

    def look(self) -> None:
        """A job that would not stop by itself is stopped."""
        if self._stop_by is not None and self._clock.monotonic() >= self._stop_by:
            self._signal(signal.SIGSTOP)
            self.job_stopped()

    def to(self, signum: int) -> None:
        """What a signal asks for. SIGHUP ends this process; whoever calls has let go before."""
        if signum == signal.SIGINT:
            self._interrupt()
        elif signum == signal.SIGTERM:
            self._plane.cancel("term")
        elif signum == signal.SIGQUIT:
            self._pass_on(signum)
        elif signum == signal.SIGTSTP and self.has_started:
            self._stop_by = self._clock.monotonic() + STOP_SECONDS
            self._pass_on(signum)
        elif signum == signal.SIGTSTP:
            self.job_stopped()
        elif signum == signal.SIGWINCH and self._has_screen:
            self._resize()
        elif signum == signal.SIGHUP:
            interrupts.die_by(signal.SIGHUP)

    def _interrupt(self) -> None:
        is_key = self._is_terminal and self.has_started
        meaning = self._ladder.press(self._clock.monotonic(), is_key=is_key)
        if meaning == interrupts.PASS:
            self._pass_on(signal.SIGINT)
        elif meaning == interrupts.INTERRUPT:
            self._plane.cancel("int", interrupts.GRACE_SECONDS)
            self._tell(
                f"interrupting {self.job_id}: SIGINT, TERM in {interrupts.GRACE_SECONDS:.0f} s, "
                "then KILL (Ctrl-C again: KILL now). To keep a job, close its terminal instead"
            )
        elif meaning == interrupts.KILL:
            self._send({"op": "kill"})
            self._plane.cancel("kill")
            self._tell(f"killing {self.job_id}, waiting until all of it is gone (Ctrl-C: leave)")
        else:
            self._tell(f"left {self.job_id} while it ends: gpulayer status {self.job_id}")
            self.has_left = True

    def _pass_on(self, signum: int) -> None:
        """As the key that it was, so that the job's own foreground gets it; else as a signal."""
        key = b""
        if self._is_terminal and self._screen is not None:
            key = self._screen.key(signum)
        if key:
            self._send(key)
        else:
            self._signal(signum)

    def _signal(self, signum: int) -> None:
        self._send({"op": "signal", "signum": int(signum), "target": "group"})

    def _resize(self) -> None:
        rows, cols = terminal.size(self._screen.fd if self._screen is not None else 1)
        self._send({"op": "winsize", "rows": rows, "cols": cols})

    def _tell(self, text: str) -> None:
        is_raw = self._screen is not None and self._screen.is_raw
        self._say(text + "\r" if is_raw and os.isatty(2) else text)
