"""What a visitor sends, on its way to a command's standard input or to a connection."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable


class Sink:
    """Never blocks. `took` hears how much has gone, or will never go anywhere."""

    def __init__(
        self,
        fd: int,
        took: Callable[[int], object],
        closing: Callable[[], object] | None = None,
    ) -> None:
        """Takes `fd` as its own. `closing` is called instead of a close, for one that is shared."""
        os.set_blocking(fd, False)
        self.fd = fd
        self._took = took
        self._closing = closing
        self._waiting: deque[memoryview] = deque()
        self._is_last = False

    @property
    def is_open(self) -> bool:
        return self.fd >= 0

    @property
    def is_full(self) -> bool:
        """Something waits."""
        return bool(self._waiting)

    @property
    def backlog(self) -> int:
        return sum(map(len, self._waiting))

    def put(self, data: bytes) -> None:
        if self.fd < 0:
            self._took(len(data))
        elif not self._is_last:
            self._waiting.append(memoryview(data))
            self.push()

    def finish(self) -> None:
        """Close it behind what waits."""
        self._is_last = True
        if not self._waiting:
            self._end()

    def push(self) -> None:
        """Write what goes now."""
        done = 0
        try:
            while self._waiting:
                head = self._waiting[0]
                written = os.write(self.fd, head)
                done += written
                if written == len(head):
                    self._waiting.popleft()
                else:
                    self._waiting[0] = head[written:]
        except BlockingIOError:
            pass
        except OSError:  # nobody reads it any more
            done += sum(map(len, self._waiting))
            self._waiting.clear()
            self.close()
        if done:
            self._took(done)
        if self._is_last and not self._waiting:
            self._end()

    def close(self) -> None:
        """Twice-safe."""
        self._waiting.clear()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _end(self) -> None:
        if self.fd >= 0 and self._closing is not None:
            try:
                self._closing()
            except OSError:
                pass  # the other side was first
        self.close()
