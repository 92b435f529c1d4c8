"""The client's own standard streams: what they are, and how bytes get onto them.

A terminal is mirrored, a pipe stays a pipe, and standard input that is no terminal is handed on as
it is (the same-world study). Output goes out byte for byte, and never blocks the client, whose
reader may have stopped: a pipe or terminal is opened anew, since O_NONBLOCK on a shared
description would reach every other user of it.
"""

from __future__ import annotations

import os
import stat
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpulayer.sdk.terminal import Screen


class Streams:
    """What fds 0, 1 and 2 are, in the words of the supervisor's `attach`."""

    __slots__ = ("kinds", "labels", "merged", "mode")

    def __init__(
        self, kinds: dict[str, str], merged: bool, mode: str, labels: Sequence[int] = ()
    ) -> None:
        self.kinds = kinds
        self.merged = merged
        self.mode = mode
        self.labels = list(labels)
        """Where a person reads lines of several ranks, each of which must say whose it is."""


def fill_closed() -> None:
    """Open /dev/null where 0, 1 or 2 is closed; else the next file or socket would become it."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != fd:
                os.dup2(opened, fd)
                os.close(opened)
            os.set_inheritable(fd, True)


def decide(screen: Screen | None, *, stdin: bool = True) -> Streams:
    """How the job's streams stand to ours. `screen` is our terminal, if any; `stdin=False`: the
    job reads nothing."""
    in_front = screen is not None and screen.is_foreground()
    mode = "terminal" if in_front and _is_controlling(1) else "plain"
    kinds = {"0": "null", "1": "pipe", "2": "pipe"}
    for fd in (1, 2):
        if os.isatty(fd) and (mode == "plain" or _is_controlling(fd)):
            kinds[str(fd)] = "terminal"
    if stdin and not _is_controlling(0):
        kinds["0"] = "passed"
    elif stdin and mode == "terminal":
        kinds["0"] = "terminal"
    return Streams(kinds, _same_file(1, 2), mode)


def for_ranks(screen: Screen | None, *, stdin: bool = True) -> Streams:
    """The same for a job of several processes: none of them has a terminal of its own, so keys
    mean what they mean to us."""
    kind = "passed" if stdin and not _is_controlling(0) else "null"
    kinds = {"0": kind, "1": "pipe", "2": "pipe"}
    return Streams(kinds, _same_file(1, 2), "plain", [fd for fd in (1, 2) if os.isatty(fd)])


class Outlet:
    """One output stream. Not blocking, in order, nothing lost; `has_left` once its reader went."""

    def __init__(self, fd: int) -> None:
        self._fd = _own(fd)
        self._waiting: deque[memoryview] = deque()
        self.has_left = False

    @property
    def fd(self) -> int:
        return self._fd

    @property
    def is_full(self) -> bool:
        """Something waits: nothing more should be taken from the job."""
        return bool(self._waiting)

    def put(self, data: bytes) -> None:
        if not self.has_left and data:
            self._waiting.append(memoryview(data))
            self.flush()

    def flush(self) -> None:
        """Write what goes now."""
        while self._waiting and not self.has_left:
            head = self._waiting[0]
            try:
                written = os.write(self._fd, head)
            except BlockingIOError:
                return
            except OSError:
                self.leave()  # EPIPE; or EIO, a terminal that hung up
                return
            if written == len(head):
                self._waiting.popleft()
            else:
                self._waiting[0] = head[written:]

    def leave(self) -> None:
        """Nobody reads any more."""
        self.has_left = True
        self._waiting.clear()


def _own(fd: int) -> int:
    """A descriptor for the same pipe or terminal whose flags are ours alone; else `fd` itself.

    Files stay: their offset is shared on purpose, and they never block.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or os.isatty(fd):
        try:
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/dev/fd/{fd}", flags)
        except OSError:
            return fd
    return fd


def _is_controlling(fd: int) -> bool:
    """Whether `fd` is the process's own terminal; names do not tell (tcgetpgrp(3), ENOTTY)."""
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) >= 0
    except OSError:
        return False


def _same_file(one: int, other: int) -> bool:
    a, b = os.fstat(one), os.fstat(other)
    return (a.st_dev, a.st_ino, a.st_rdev) == (b.st_dev, b.st_ino, b.st_rdev)
