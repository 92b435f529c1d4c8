"""Files that a worker stored for a job before it told the job's end."""

from __future__ import annotations

import dataclasses

from gpulayer.contracts.messages import TaskReport
from gpulayer.control_plane.ports import Artifacts


def with_what_is_here(news: TaskReport, artifacts: Artifacts) -> TaskReport:
    """The news without outputs that are not stored here any more, which it then says; the others
    stay until they are named. A worker that was cut off for long may come after a collection."""
    end = news.exit
    if end is None or not end.outputs:
        return news
    here = tuple(output for output in end.outputs if artifacts.touch(str(output.get("digest"))))
    if len(here) == len(end.outputs):
        return news
    lost = sorted(str(output.get("path")) for output in end.outputs if output not in here)
    shown = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
    note = f"removed before it was told of: {shown}"
    message = "; ".join(part for part in (end.message, note) if part)
    return dataclasses.replace(news, exit=dataclasses.replace(end, outputs=here, message=message))
