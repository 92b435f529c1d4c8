"""Copying what a job says: read end -> redaction -> segment and client, with back-pressure.

Reads are of 64 KiB and know no lines, so memory is flat whatever comes. While the client is choked
nothing is read, and the kernel slows the job. Bytes that may be the beginning of a secret wait for
the next ones, at most `HOLD_SECONDS`.
"""

from __future__ import annotations

import os

from gpulayer.runtime.loop import READ, WRITE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gpulayer.runtime.loop import Loop, Timer
    from gpulayer.runtime.plumbing import Source
    from gpulayer.runtime.redaction import Redactor

CHUNK = 1 << 16
DRAIN_BYTES = 4 << 20
"""More than a pipe holds: what comes later comes from outside the job."""
HOLD_SECONDS = 1.0


class Pump:
    """One source. `out` gets (source, clean bytes); `choked` says whether to stop for now."""

    def __init__(
        self,
        loop: Loop,
        source: Source,
        redactor: Redactor | None,
        out: Callable[[Source, bytes], object],
        choked: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self.source = source
        self._redactor = redactor
        self._out = out
        self._choked = choked
        self._hold: Timer | None = None
        self.is_open = True
        self._is_watched = False
        self._ended = False
        self.resume()

    def resume(self) -> None:
        if self.is_open and not self._is_watched and not self._choked():
            self._is_watched = True
            self._loop.watch(self.source.fd, READ, self._ready)

    def drain(self) -> None:
        """Copies what is there now, to the end if it is in sight, and closes. Never waits."""
        most = DRAIN_BYTES
        while most > 0 and self._read():
            most -= CHUNK
        self.close()

    def close(self) -> None:
        """Twice-safe. The job gets SIGPIPE at its next write, unless somebody else reads too."""
        if not self.is_open:
            return
        self.is_open = False
        self._pause()
        self._flush()
        os.close(self.source.fd)

    def _ready(self) -> None:
        if not self._read() and self.is_open and self._ended:
            self.close()
        elif self._choked():
            self._pause()

    def _read(self) -> bool:
        """Copies one chunk. False at the end (then `_ended`), or where there is nothing now."""
        self.source.copying[0] = 1
        try:
            return self._copy()
        finally:
            self.source.copying[0] = self._redactor is not None and self._redactor.holds

    def _copy(self) -> bool:
        try:
            data = os.read(self.source.fd, CHUNK) if self.is_open else b""
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # EIO: the last holder of a terminal has let go (pty(7))
        if not data:
            self._ended = True
            return False
        if self._redactor is not None:
            data = self._redactor.feed(data)
            self._hold_back()
        if data:
            self._out(self.source, data)
        return True

    def _hold_back(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None
        if self._redactor is not None and self._redactor.holds:
            self._hold = self._loop.after(HOLD_SECONDS, self._flush)

    def _flush(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None
        if self._redactor is not None:
            data = self._redactor.flush()
            if data:
                self._out(self.source, data)

    def _pause(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self._loop.unwatch(self.source.fd)


class Keyboard:
    """Keys on their way to a job's terminal; waits for a job that does not read, up to a limit."""

    LIMIT = 1 << 20

    def __init__(self, loop: Loop, fd: int) -> None:
        self._loop = loop
        self._fd = fd
        self._waiting = bytearray()

    def type(self, data: bytes) -> None:
        if self._fd >= 0 and len(self._waiting) < self.LIMIT:
            self._waiting += data
            self._push()

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.unwatch(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _push(self) -> None:
        try:
            del self._waiting[: os.write(self._fd, self._waiting)]
        except BlockingIOError:
            pass
        except OSError:
            self._waiting.clear()  # nobody holds the terminal any more
        if self._waiting:
            self._loop.watch(self._fd, WRITE, self._push)
        else:
            self._loop.unwatch(self._fd)
