"""Signals as news in a pipe, for a loop that waits for other things too (signal(7)).

A signal that the person has ignored (nohup, a background start) stays ignored. Main thread only.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Self

TAKEN = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGTSTP,
    signal.SIGWINCH,
    signal.SIGHUP,
)


class Caught:
    """Within the `with`, signals arrive here; afterwards they do what they did before."""

    def __enter__(self) -> Self:
        self.fd, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._former: dict[signal.Signals, Any] = {}
        for signum in TAKEN:
            if signal.getsignal(signum) != signal.SIG_IGN:
                self._former[signum] = signal.signal(signum, _noted)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(-1)
        for signum, handler in self._former.items():
            signal.signal(signum, handler)
        os.close(self.fd)
        os.close(self._wakeup)

    def arrived(self) -> list[int]:
        """Signals since the last call. Each press counts, so each byte does."""
        try:
            return list(os.read(self.fd, 4096))
        except BlockingIOError:
            return []

    def stop_here(self) -> None:
        """Stop this process as Ctrl-Z would; returns once it goes on. Where nobody could let it
        go on (an orphaned group), the kernel does not stop it."""
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, _noted)


def _noted(signum: int, frame: FrameType | None) -> None:
    """The wake-up descriptor has the news."""
