"""The lock of a home's tasks (flock(2)): whoever holds it is the supervisor, and it ends with the
process. The file is never deleted; that its folder was is seen by comparing inodes."""

from __future__ import annotations

import fcntl
import os
import socket
import time

WAIT_SECONDS = 5.0
RETRY_SECONDS = 0.02


class HomeLock:
    """Held from `take` to the end of the process, or `release`."""

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    def is_in_place(self) -> bool:
        """Whether the path still leads to the file we hold: the folder may have been deleted."""
        try:
            there = os.stat(self._path)
        except OSError:
            return False
        held = os.fstat(self._fd)
        return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)

    def release(self) -> None:
        os.close(self._fd)


def take(path: str) -> HomeLock | None:
    """Without waiting; None where somebody holds it or the folder is gone. Makes no folder: only a
    client may make a home."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    lock = HomeLock(path, fd)
    if not lock.is_in_place():
        lock.release()
        return None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)  # for messages only
    return lock


def take_or_find(path: str, address: str) -> HomeLock | None:
    """Waits for one that is leaving or sweeping; None once somebody answers at `address`, or
    nothing came of it."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        lock = take(path)
        if lock is not None or _answers(address) or time.monotonic() > end:
            return lock
        time.sleep(RETRY_SECONDS)


def _answers(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(address)
        except BlockingIOError:
            return True  # its backlog is full: it lives
        except OSError:
            return False
    return True
