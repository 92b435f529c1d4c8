"""A person at a real terminal: types keys, waits for what the screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from gpulayer.clock import SystemClock
from gpulayer.sdk.waiting import look_again

SECONDS = 60.0


class Person:
    """Starts `command` on a terminal of its own. Leaving the context hangs up."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        *,
        rows: int = 24,
        cols: int = 80,
    ) -> None:
        self.screen = b""
        """All bytes that the terminal was given so far."""
        self._seen = 0
        self._status: int | None = None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))
                os.chdir(folder)
                os.execvpe(command[0], list(command), dict(environ))
            finally:
                os._exit(99)

    def __enter__(self) -> Person:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(f"the screen: {self.screen!r}")
        self.hang_up()
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def types(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def sees(self, text: str) -> bytes:
        """Wait until `text` is on the screen, after what was seen before; what came until it."""
        begin = self._seen
        assert self.shows(text), f"{text!r} never came"
        return self.screen[begin : self._seen]

    def shows(self, text: str) -> bool:
        """As `sees`; no where the command ends before."""
        wanted = text.encode()
        while wanted not in self.screen[self._seen :]:
            if not self._read(SECONDS):
                return False
        self._seen = self.screen.index(wanted, self._seen) + len(wanted)
        return True

    def resizes(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))

    def ends(self) -> int:
        """Read to the end; the command's exit code, negative for a signal."""
        while self._read(SECONDS):
            pass
        if self._status is None:
            _, self._status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(self._status)

    def modes(self) -> list[int]:
        """Input, output, control and local modes of the terminal (termios(3))."""
        return [int(flags) for flags in termios.tcgetattr(self.master)[:4]]

    def until_raw(self) -> None:
        """Wait until the terminal hands keys on one by one."""
        self._until(lambda: not termios.tcgetattr(self.master)[3] & termios.ICANON)

    def until_raw_signals_are_off(self) -> None:
        """Wait until no key is a signal."""
        self._until(lambda: not termios.tcgetattr(self.master)[3] & termios.ISIG)

    def _until(self, there: Callable[[], object]) -> None:
        clock = SystemClock()
        end = clock.monotonic() + SECONDS
        while not there():
            assert clock.monotonic() < end, f"it never came; the screen: {self.screen!r}"
            look_again()

    def hang_up(self) -> None:
        """Close the terminal. Twice-safe."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def _read(self, seconds: float) -> bool:
        """Whether anything came before the end."""
        if not select.select([self.master], [], [], seconds)[0]:
            raise AssertionError(f"silence for {seconds} s; the screen: {self.screen!r}")
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.screen += data
        return bool(data)
