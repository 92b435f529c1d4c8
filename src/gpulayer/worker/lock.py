"""One worker per home: a lock that lives exactly as long as its holder.

flock(2) belongs to the open file. Lock files are never deleted, so inodes are compared: the folder
may have been deleted and made again, and then this worker is nobody's any more.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from hashlib import sha256

from gpulayer._version import __version__


class WorkerLock:
    """`take` first. In a child forked from the holder the lock is let go."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def take(self) -> bool:
        """Whether it is ours now. `FileNotFoundError`: its folder is gone."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        self.note(self.noted())
        os.register_at_fork(after_in_child=self._close)
        return self.in_place()

    @property
    def place(self) -> str:
        """Names the lock that we hold, on this boot of this machine: nobody else has it while we
        do. Another in a copy of the folder, or on a machine that was copied."""
        held = os.fstat(self._fd)
        text = f"{_boot()}:{held.st_dev}:{held.st_ino}"
        return sha256(text.encode()).hexdigest()[:20]

    def in_place(self) -> bool:
        """Whether the locked file is still the one at its path."""
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path))
        except OSError:
            return False

    def note(self, text: str) -> None:
        """Keep a few words for the next holder, and our version for who looks. Not synced; a reboot
        makes them void anyway. A full disk keeps the older ones."""
        if self._fd >= 0:
            with suppress(OSError):
                os.pwrite(self._fd, f"{text}\n{__version__}\n".encode(), 0)

    def noted(self) -> str:
        """What the last holder noted, or nothing."""
        return os.pread(self._fd, 100, 0).decode(errors="replace").partition("\n")[0]

    def release(self) -> None:
        """Twice-safe. A process that is just being started may have the file open as well."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _boot() -> str:
    """This run of this machine's kernel; where that has no name, the machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename
