"""The standard input of a job on another machine, taken whole before the job is submitted: then it
is an artifact like any other, and each attempt reads it from its start.

    a file              from where it stands to its end; where it stands is left alone, so that a
                        `while read` loop around us loses nothing
    a pipe, a socket    to its end, by way of a file without a name, which dies with us
    a terminal          nothing: keys are for jobs here
    anything else       nothing: a device may have no end
"""

from __future__ import annotations

import hashlib
import os
import select
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpulayer.api.transfers import Client, upload
from gpulayer.artifacts.on_disk import write_whole
from gpulayer.contracts import limits
from gpulayer.contracts.durations import bytes_text
from gpulayer.contracts.named import ADDRESS
from gpulayer.errors import RefusedError, UsageError
from gpulayer.sdk.disk import disk_error

PIECE = 1 << 20
DISK = "/var/tmp"  # noqa: S108  nothing in it has a name; elsewhere it may be memory
Heard = Callable[[int], object]
"""Is told how many bytes were taken so far."""


class StandardInput:
    """Bytes of an open file: a body that can be sent, and sent again."""

    def __init__(self, fd: int, start: int, size: int, digest: str) -> None:
        self._fd = fd
        self._start = start
        self.size = size
        self.digest = digest
        self.place = 0
        """How many of its bytes are sent."""

    def seek(self, offset: int) -> None:
        self.place = offset

    def read(self, size: int = -1) -> bytes:
        left = self.size - self.place
        wanted = left if size < 0 else min(size, left)
        data = os.pread(self._fd, wanted, self._start + self.place)
        if wanted and not data:
            raise _unreadable("it became shorter while it was sent")
        self.place += len(data)
        return data

    def send(self, transport: Client) -> int:
        """A parcel of `sending`."""
        return upload(transport, self.digest, self, self.size)

    def onto(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The job that reads it."""
        return {**spec, "stdin": ADDRESS + self.digest}


def taken(fd: int, heard: Heard, most: int = limits.PIPED_BYTES) -> StandardInput | None:
    """What can be read there, None where that is nothing. Returns once it has ended, and not
    before; UsageError or RefusedError `too-large` for what cannot be taken."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return None  # closed
    if stat.S_ISREG(mode):
        found = _of_file(fd, heard)
    elif stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        found = _of_pipe(fd, heard, most)
    else:
        return None
    return found if found.size else None


def _of_file(fd: int, heard: Heard) -> StandardInput:
    seen, size = hashlib.sha256(), 0
    try:
        start = os.lseek(fd, 0, os.SEEK_CUR)
        while data := os.pread(fd, PIECE, start + size):
            seen.update(data)
            size += len(data)
            heard(size)
    except OSError as error:
        raise _unreadable(error.strerror or str(error)) from error
    return StandardInput(fd, start, size, seen.hexdigest())


def _of_pipe(fd: int, heard: Heard, most: int) -> StandardInput:
    seen, size = hashlib.sha256(), 0
    kept = _nameless()
    for data in _pieces(fd):
        seen.update(data)
        size += len(data)
        if size > most:
            raise RefusedError(
                "too-large",
                f"standard input has gone on for more than {bytes_text(most)}",
                why="a pipe is read to its end before the job is submitted; a file may be larger",
                hint="--stdin none",
            )
        try:
            write_whole(kept, data)
        except OSError as error:
            raise disk_error(error, _folder()) from error
        heard(size)
    return StandardInput(kept, 0, size, seen.hexdigest())


def _pieces(fd: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(fd, PIECE)
        except BlockingIOError:  # somebody who shares it set it so
            select.select((fd,), (), ())
            continue
        except OSError as error:
            raise _unreadable(error.strerror or str(error)) from error
        if not data:
            return
        yield data


def _nameless() -> int:
    """A descriptor that lives as long as this process."""
    try:
        with tempfile.TemporaryFile(dir=_folder(), buffering=0) as file:
            return os.dup(file.fileno())
    except OSError as error:
        raise disk_error(error, _folder()) from error


def _folder() -> str:
    return os.environ.get("TMPDIR") or (DISK if os.access(DISK, os.W_OK) else tempfile.gettempdir())


def _unreadable(why: str) -> UsageError:
    return UsageError("usage", f"standard input cannot be read: {why}", hint="--stdin none")
