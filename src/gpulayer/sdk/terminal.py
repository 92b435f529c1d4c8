"""The person's terminal while a job has one of its own (termios(3), tty_ioctl(4)).

Keys go through untouched, output too: the job's terminal does the echo and the line editing. ISIG
stays on as long as the job's has it, so that Ctrl-C reaches a surrounding script as well; the keys
that became signals are passed on as keys. Settings change only in the foreground: a background
process that tried would be stopped (SIGTTOU).
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_IFLAG, _OFLAG, _LFLAG, _CC = 0, 1, 3, 6

_KEYS = {
    signal.SIGINT: termios.VINTR,
    signal.SIGQUIT: termios.VQUIT,
    signal.SIGTSTP: termios.VSUSP,
}


class Screen:
    """The controlling terminal. `close` on every way out; it restores first."""

    def __init__(self, fd: int) -> None:
        """Takes `fd`, an open terminal, as its own."""
        self.fd = fd
        self._saved: list[Any] = termios.tcgetattr(fd)
        self._signals = True
        self.is_raw = False

    @classmethod
    def controlling(cls) -> Screen | None:
        """The process's own terminal, if it has one."""
        try:
            fd = os.open("/dev/tty", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return cls(fd)
        except termios.error:
            os.close(fd)
            return None

    def is_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return False

    def settings(self) -> dict[str, Any]:
        """For the job's terminal: attributes (control characters as numbers), rows, columns."""
        rows, cols = size(self.fd)
        letters = [c if isinstance(c, int) else c[0] for c in self._saved[_CC]]
        return {"attrs": [*self._saved[:_CC], letters], "rows": rows, "cols": cols}

    def key(self, signum: int) -> bytes:
        """The key that stands for the signal; empty where it is switched off."""
        letter = self._saved[_CC][_KEYS[signal.Signals(signum)]]
        return b"" if letter in (b"\0", b"\xff", 0) else bytes(letter)

    def enter(self) -> None:
        """Let keys through. Nothing happens in the background, or twice."""
        if self.is_raw or not self.is_foreground():
            return
        self._saved = termios.tcgetattr(self.fd)
        self._apply()
        self.is_raw = True

    def mirror_signals(self, on: bool) -> None:
        """Whether keys may become signals, as on the job's own terminal now."""
        self._signals = on
        if self.is_raw and self.is_foreground():
            self._apply()

    def restore(self) -> None:
        """As it was found. Nothing happens in the background, where it is not ours."""
        if self.is_raw and self.is_foreground():
            try:
                termios.tcsetattr(self.fd, termios.TCSADRAIN, self._saved)
            except termios.error:
                pass  # hung up
        self.is_raw = False

    def close(self) -> None:
        """Restore and let go. Twice-safe."""
        if self.fd >= 0:
            self.restore()
            os.close(self.fd)
            self.fd = -1

    def _apply(self) -> None:
        raw = [*self._saved[:_CC], list(self._saved[_CC])]
        raw[_IFLAG] &= ~(
            termios.BRKINT
            | termios.ICRNL
            | termios.IGNCR
            | termios.INLCR
            | termios.INPCK
            | termios.ISTRIP
            | termios.IXON
        )
        raw[_OFLAG] &= ~termios.OPOST
        raw[_LFLAG] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN)
        raw[_LFLAG] |= termios.NOFLSH
        if not self._signals:
            raw[_LFLAG] &= ~termios.ISIG
        raw[_CC][termios.VMIN], raw[_CC][termios.VTIME] = b"\1", b"\0"
        termios.tcsetattr(self.fd, termios.TCSADRAIN, raw)


def size(fd: int) -> tuple[int, int]:
    """(rows, columns); 24 x 80 where nobody knows."""
    try:
        raw = fcntl.ioctl(fd, termios.TIOCGWINSZ, b"\0" * 8)
    except OSError:
        return 24, 80
    rows, cols, _, _ = struct.unpack("4H", raw)
    return rows or 24, cols or 80
