"""What an attached client asks of the supervisor: this world, these streams, this terminal."""

from __future__ import annotations

from gpulayer.sdk import terminal
from gpulayer.sdk.world import asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpulayer.runtime import frames
    from gpulayer.sdk.places import Places
    from gpulayer.sdk.streams import Streams
    from gpulayer.sdk.terminal import Screen
    from gpulayer.sdk.world import World


class AttachRequest:
    """May be sent again: a supervisor that died before the job began has forgotten it."""

    def __init__(
        self,
        places: Places,
        seen: World,
        screen: Screen | None,
        decided: Streams,
    ) -> None:
        self.streams = decided
        self._places = places
        self._world = seen
        self._fields: dict[str, Any] = {
            "envelope": seen.envelope,
            "streams": decided.kinds,
            "merged": decided.merged,
            "mode": decided.mode,
            "labels": decided.labels,
        }
        if screen is not None and decided.mode == "terminal":
            self._fields["terminal"] = screen.settings()
        elif "terminal" in decided.kinds.values():
            rows, cols = terminal.size(1 if decided.kinds["1"] == "terminal" else 2)
            self._fields["terminal"] = {"attrs": [], "rows": rows, "cols": cols}

    def send(self, attach_id: str | None = None) -> tuple[frames.Connection, dict[str, Any]]:
        """A connection that is the attach's, and the answer. `attach_id`: be that one again."""
        fds = {"cwd": self._world.folder_fd} if self._world.folder_fd >= 0 else {}
        if self.streams.kinds["0"] == "passed":
            fds["stdin"] = 0
        again = {"attach_id": attach_id} if attach_id is not None else {}
        return asked(self._places, "attach", fds, **self._fields, **again)
