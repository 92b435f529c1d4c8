"""Following a segment: requests that wait until there are bytes past their offset, or the end."""

from __future__ import annotations

import os

from gpulayer.runtime import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from gpulayer.runtime.peers import Peer

    class Segment(Protocol):
        """An open segment: bytes below `size` are whole records and never change."""

        fd: int
        size: int


class Tails:
    """The followers of one task; one waiting request a peer, a newer one answers the older."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._parked: dict[Peer, dict[str, Any]] = {}
        self.exit: dict[str, Any] | None = None

    def ask(self, peer: Peer, request: dict[str, Any]) -> None:
        older = self._parked.pop(peer, None)
        if older is not None:
            self._reply(peer, older, b"")
        if not self._answer(peer, request):
            self._parked[peer] = request

    def look(self) -> None:
        """The segment grew, or the task ended."""
        for peer, request in list(self._parked.items()):
            if not peer.is_open or self._answer(peer, request):
                del self._parked[peer]

    def _answer(self, peer: Peer, request: dict[str, Any]) -> bool:
        offset = int(request["offset"])
        most = min(int(request.get("max_bytes") or frames.MAX_PAYLOAD), frames.MAX_PAYLOAD)
        data = b""
        if self._segment.size > offset:
            data = os.pread(self._segment.fd, min(most, self._segment.size - offset), offset)
        if data or self.exit is not None:
            self._reply(peer, request, data)
            return True
        return False

    def _reply(self, peer: Peer, request: dict[str, Any], data: bytes) -> None:
        size = self._segment.size
        at_end = int(request["offset"]) + len(data) >= size
        peer.send_json(
            {
                "seq": request.get("seq"),
                "ok": True,
                "bytes": len(data),
                "size": size,
                "eof": self.exit is not None and at_end,
                "exit": self.exit,
            }
        )
        if data:
            peer.send(frames.LOG, data)
