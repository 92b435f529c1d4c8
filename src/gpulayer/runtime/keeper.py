"""The keeper: the forked parent of one job, where no cgroup leaf holds it or a terminal does.

    supervisor -- fork, no exec --> keeper -- fork, exec --> job

It is a subreaper, so that nothing of the job leaves it; leads the session of the job's terminal,
so that Ctrl-Z works; holds copies of the read ends, so that no output is lost with the
supervisor; and holds the lock of the task's birth file. It writes how the job ended into that
file before it tells anyone. When its supervisor dies it ends the job, drains what was not read,
and leaves.

`Keeper` is the supervisor's handle, a `Body` by proxy; the process is `keeping.keep`. They speak
JSON lines over a socket pair: {"op": "signal" | "blame" | "kill" | "close" | "bye" | "visit" |
"signal_visit" | "end_visit"} down, and up the events of `Body`.
"""

from __future__ import annotations

import os
import socket

from gpulayer.runtime import keeping, spawn
from gpulayer.runtime.lines import Line
from gpulayer.runtime.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpulayer.runtime.keeping import Post
    from gpulayer.runtime.loop import Loop
    from gpulayer.runtime.processes import Children


class Keeper:
    """`report` gets the body's events, and {"event": "orphaned"} where it dies before the last."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        post: Post,
        report: Callable[[dict[str, Any]], object],
    ) -> None:
        self._loop = loop
        self._children = children
        self._post = post
        self._report = report
        self._ended = False
        self.is_dead = False
        self.pid = -1

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        before = spawn.block_signals()
        try:
            self.pid = os.fork()
            if self.pid == 0:
                keeping.keep(self._post, theirs)
        finally:
            spawn.restore_signals(before)
        theirs.close()
        ours.setblocking(False)
        self._line = Line(ours)
        self._children.watch(self.pid, self._gone)
        self._loop.watch(ours.fileno(), READ, self._read)

    def signal(self, signum: int, target: str = "group") -> None:
        self._line.send({"op": "signal", "signum": int(signum), "target": target})

    def blame(self, cause: str, reason: str | None = None) -> None:
        self._line.send({"op": "blame", "cause": cause, "reason": reason})

    def kill(self) -> None:
        self._line.send({"op": "kill"})

    def visit(self, request: dict[str, Any], fds: list[int]) -> None:
        """What cannot be is reported, as the visit's end."""
        self._line.send_with({"op": "visit", "fds": len(fds), **request}, fds)

    def signal_visit(self, name: str, signum: int) -> None:
        self._line.send({"op": "signal_visit", "visit": name, "signum": signum})

    def end_visit(self, name: str) -> None:
        self._line.send({"op": "end_visit", "visit": name})

    def close_stream(self, stream: int) -> None:
        self._line.send({"op": "close", "stream": stream})

    def release(self) -> None:
        """All output was read: it may leave."""
        self._line.send({"op": "bye"})
        self._hang_up()

    def look(self) -> bool:
        """For a dead keeper: whether its leaf is empty; ends what still lives there."""
        leaf = self._post.leaf
        if self.is_dead and leaf is not None and leaf.is_populated():
            leaf.kill()
            return False
        return True

    def _read(self) -> None:
        for event in self._line.receive():
            self._ended = self._ended or event["event"] == "empty"
            self._report(event)
        if self._line.is_over:
            self._hang_up()

    def _gone(self, status: int, rusage: Any) -> None:
        if not self._line.is_over:
            self._read()  # its last words may still wait in the socket
        self._hang_up()
        if not self._ended:
            self.is_dead = True
            self._report({"event": "orphaned"})

    def _hang_up(self) -> None:
        if self._line.fileno() >= 0:
            self._loop.unwatch(self._line.fileno())
            self._line.close()
