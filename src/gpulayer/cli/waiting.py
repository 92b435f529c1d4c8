"""A word about what a job waits for, once it has waited for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.errors import GPULayerError


@contextmanager
def told_after(seconds: float, wire: Wire, job_id: str | None) -> Iterator[None]:
    """While inside: say why the job is still queued, once, after that time. None: say nothing."""
    if job_id is None:
        yield
        return
    timer = threading.Timer(seconds, _tell, (wire.aside(), job_id))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(wire: Wire, job_id: str) -> None:
    try:
        job = wire.call("GET", job_path(job_id))
    except GPULayerError:
        return  # who waits for the job finds out, and says it
    finally:
        wire.close()
    if job["state"] == "queued":
        why = str(job.get("decision_summary") or job.get("message") or "its turn")
        render.say(f"{job_id} waits: {render.plain(why.removeprefix('waits: '))}")
