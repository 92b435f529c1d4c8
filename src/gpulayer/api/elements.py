"""The route about the elements of an array: translation alone, as in `handlers`."""

from __future__ import annotations

from typing import Any

from gpulayer.api.answers import Call
from gpulayer.control_plane.plane import ControlPlane


class Elements:
    """Part of `handlers.Handlers`."""

    _plane: ControlPlane

    def elements(self, call: Call) -> Any:
        """Those behind the index `after`, by index; of one `state` where it is said."""
        return self._plane.elements(
            call.path["selector"],
            state=call.query.get("state"),
            after=call.number("after") if call.query.get("after") else -1,
            limit=call.number("limit", 1_000),
        )
