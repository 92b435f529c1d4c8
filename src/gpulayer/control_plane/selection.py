"""What a selector means: an id, a unique prefix, a name (the newest), or `last`."""

from __future__ import annotations

from gpulayer.contracts.records import Job
from gpulayer.control_plane.ports import Reader
from gpulayer.errors import NotFoundError


def find_job(
    reader: Reader, selector: str, session: str | None = None, owner: str | None = None
) -> Job:
    """The one job. Raises `job-not-found` or `ambiguous-job`, which names the candidates."""
    found = reader.find_jobs(selector, session=session, owner=owner)
    if not found:
        raise NotFoundError(
            "job-not-found", f"no job is called {selector!r}", hint="gpulayer ps -a"
        )
    if len(found) > 1:
        ids = ", ".join(job.id for job in found)
        raise NotFoundError(
            "ambiguous-job", f"{selector!r} could be {ids}", hint=f"gpulayer status {found[0].id}"
        )
    return found[0]
