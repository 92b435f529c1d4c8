"""An attach: one client that waits for, and then watches, one task.

Before the start it holds the client's standard input and nothing else of the client; after it,
output goes to the client in frames, and what the client asks goes to the task. When the client
leaves, the task goes on.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpulayer.runtime.peers import Peer
    from gpulayer.runtime.tasks import Task


class Attach:
    """`request` is the client's `attach`: streams, merged, mode, terminal."""

    def __init__(
        self, attach_id: str, peer: Peer, request: dict[str, Any], envelope_id: str, stdin: int
    ) -> None:
        self.attach_id = attach_id
        self.request = request
        self.envelope_id = envelope_id
        self.peer = peer
        self.task: Task | None = None
        self._stdin = stdin

    @property
    def choked(self) -> bool:
        return self.peer.choked

    def take_stdin(self) -> int:
        """The client's standard input, once; -1 where there is none."""
        stdin, self._stdin = self._stdin, -1
        return stdin

    def output(self, frame: str, data: bytes) -> None:
        if data:
            self.peer.send(frame, data)

    def event(self, event: dict[str, Any]) -> None:
        self.peer.send_json(event)

    def close(self) -> None:
        """The client is gone. Twice-safe."""
        stdin = self.take_stdin()
        if stdin >= 0:
            os.close(stdin)
        if self.task is not None:
            self.task.detach()
            self.task = None
