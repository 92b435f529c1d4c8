"""Gives a terminal back whose client was killed outright (SIGKILL).

    with guarded(screen.fd): ...

A small child waits for the end of a pipe that the client holds. Told nothing before it, the child
restores the settings that the terminal had, and leaves. It costs a fork, only while keys go through
untouched to a command elsewhere.
"""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def guarded(fd: int) -> Iterator[None]:
    """Within, the death of this process gives the terminal `fd` its present settings back."""
    saved = termios.tcgetattr(fd)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _guard(fd, saved, reader)
    os.close(reader)
    try:
        yield
    finally:
        try:
            os.write(writer, b"!")
        except OSError:
            pass  # the guard was killed
        os.close(writer)
        os.waitpid(child, 0)


def _guard(fd: int, saved: list[object], reader: int) -> None:
    try:
        for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP,
                       signal.SIGTSTP, signal.SIGTTOU):  # fmt: skip
            signal.signal(signum, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        for other in range(3, 256):
            if other not in (fd, reader):
                _close(other)
        for stream in (0, 1, 2):  # whoever reads what the client wrote shall see its end
            if stream != fd:
                _close(stream)
        if os.read(reader, 1) == b"":
            termios.tcsetattr(fd, termios.TCSANOW, saved)  # type: ignore[arg-type]
    finally:
        os._exit(0)


def _close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        pass
