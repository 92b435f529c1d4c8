"""Pseudo-terminals (pty(7)): one that controls a job, or one that only looks like a screen.

`openpty` gives (master, slave). Settings are applied as the client gives them, so it decides what
its own terminal does and what the job's does: one that leaves OPOST on at home clears it here.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OFLAG, _LFLAG, _CC = 1, 3, 6


def controlling(settings: dict[str, Any]) -> tuple[int, int]:
    """A terminal for the job's foreground, with the client's settings and size."""
    master, slave = _open()
    attributes = settings.get("attrs")
    try:
        if attributes:
            letters = [bytes((c,)) if isinstance(c, int) else c for c in attributes[_CC]]
            termios.tcsetattr(slave, termios.TCSANOW, [*attributes[:_CC], letters])
    except (TypeError, ValueError, LookupError, OverflowError, termios.error):
        pass  # settings of another system: the kernel's own will do
    resize(master, settings.get("rows") or 24, settings.get("cols") or 80)
    return master, slave


def screen(settings: dict[str, Any]) -> tuple[int, int]:
    """A terminal to print to, whose bytes come out as they went in."""
    master, slave = _open()
    attributes = termios.tcgetattr(slave)
    attributes[_OFLAG] &= ~termios.OPOST
    attributes[_LFLAG] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    resize(master, settings.get("rows") or 24, settings.get("cols") or 80)
    return master, slave


def resize(master: int, rows: int, cols: int) -> None:
    """The kernel tells the foreground group of a controlled job (SIGWINCH)."""
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))


def keeps_signals(master: int) -> bool:
    """Whether the job's terminal turns keys into signals now (ISIG)."""
    try:
        return bool(termios.tcgetattr(master)[_LFLAG] & termios.ISIG)
    except termios.error:
        return True


def interrupts(master: int, keys: bytes) -> bool:
    """Whether one of these keys is, as the job's terminal is set now, an interrupt."""
    try:
        return keeps_signals(master) and _key(master, termios.VINTR) in keys
    except termios.error:
        return False


def end_of_input(master: int) -> bytes:
    """The key that means end of file on this terminal."""
    return _key(master, termios.VEOF)


def _key(master: int, index: int) -> bytes:
    letter = termios.tcgetattr(master)[_CC][index]
    return letter if isinstance(letter, bytes) else bytes((letter,))


def _open() -> tuple[int, int]:
    master, slave = os.openpty()
    os.set_blocking(master, False)
    return master, slave
