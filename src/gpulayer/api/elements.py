"""The route about the elements of an array: translation alone, as in `handlers`."""

from __future__ import annotations

from typing import Any

from gpulayer.api.answers import PARK_SECONDS, Call, Parked
from gpulayer.control_plane.element_pages import PAGE
from gpulayer.control_plane.plane import ControlPlane
from gpulayer.control_plane.wakeups import job_topic

GATHER_SECONDS = 1.0
"""Longest that a first result is held so that more come with it."""


class Elements:
    """Part of `handlers.Handlers`."""

    _plane: ControlPlane

    def elements(self, call: Call) -> Any:
        """Those behind `after`, by index; of one `state` where it is said. `order=end`: as they
        ended, `after` being what an answer named as next. `ended=1`: up to the first that has not.

        With `wait` an answer comes once there is something to tell or the array has ended; with
        `gather` it then waits that long for a full page, so that few answers bring many.
        """
        query = call.query
        limit = min(max(1, call.number("limit", PAGE)), PAGE)
        wanted: dict[str, Any] = {
            "state": query.get("state"),
            "after": call.number("after") if query.get("after") else -1,
            "limit": limit,
            "ended": query.get("ended") == "1",
            "by_end": query.get("order") == "end",
        }
        seconds = call.seconds("wait", PARK_SECONDS)
        if not seconds:
            return self._plane.elements(call.path["selector"], **wanted)
        job_id = self._plane.find(call.path["selector"]).id
        topics, gather = (job_topic(job_id),), call.seconds("gather", GATHER_SECONDS)

        def page() -> dict[str, Any]:
            return self._plane.elements(job_id, **wanted)

        def look(last: bool) -> Any:
            found = page()
            count = len(found["elements"])
            if last or found["ended"] or found["next"] is None or count == limit:
                return found
            if not count:
                return None
            full = _ended(found["array"]) + limit - count

            def gathered(late: bool) -> Any:
                return page() if late or self._has(job_id, full) else None

            return Parked(topics, gather, gathered) if gather else found

        return Parked(topics, seconds, look)

    def _has(self, job_id: str, count: int) -> bool:
        """Whether so many have ended, or all."""
        found = self._plane.elements(job_id, limit=1)
        return found["ended"] or _ended(found["array"]) >= count


def _ended(array: dict[str, Any]) -> int:
    return int(array["elements"] - array["waiting"] - array["running"])
