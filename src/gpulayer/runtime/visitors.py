"""Who visits which task: a connection to the supervisor that brings a command into it.

A connection has one visit at most, and gets {"event": "started" | "ended" | "task-ended"}, the last
one always and once. Without a command it only watches for the task's end. Closing it is to leave.
"""

from __future__ import annotations

import signal

from gpulayer.runtime.spawn import SpawnError
from gpulayer.runtime.tasks import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpulayer.runtime.peers import Peer

STREAMS = ("stdin", "stdout", "stderr")
TERMINAL = "terminal"


class Visitors:
    """Of one supervisor."""

    def __init__(self) -> None:
        self._visits: dict[Peer, tuple[Task, str]] = {}
        self._next = 0

    def begin(
        self, peer: Peer, task: Any, request: dict[str, Any], fds: dict[str, int]
    ) -> dict[str, Any]:
        """`fds` stay the caller's."""
        if peer in self._visits:
            raise ValueError("this connection has a visit already")
        if not isinstance(task, Task) or not task.is_visitable(request.get("fence")):
            raise SpawnError("not-running", "the task does not run")
        has_terminal = TERMINAL in fds
        names = (TERMINAL,) if has_terminal else STREAMS
        brought = [] if request.get("watch") else [fds[name] for name in names]
        self._next += 1
        name = f"v{self._next}"
        visit = {
            "visit": name,
            "argv": request.get("argv"),
            "set": request.get("set"),
            "terminal": has_terminal,
            "mark": request.get("mark"),
        }

        def told(event: dict[str, Any]) -> None:
            kind = event.pop("what", "task-ended")
            peer.send_json({**event, "event": kind})

        if brought:
            task.body.visit(visit, brought)
        task.visits[name] = told
        self._visits[peer] = task, name
        return {"visit": name}

    def signal(self, peer: Peer, signum: int) -> None:
        found = self._visits.get(peer)
        if signum not in signal.valid_signals():
            raise ValueError(f"no such signal: {signum}")
        if found is not None and found[0].is_running:
            found[0].body.signal_visit(found[1], signum)

    def left(self, peer: Peer) -> None:
        """The connection is closed."""
        found = self._visits.pop(peer, None)
        if found is not None:
            task, name = found
            if task.visits.pop(name, None) is not None and task.is_running:
                task.body.end_visit(name)
