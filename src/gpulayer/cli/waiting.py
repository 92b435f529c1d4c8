"""A word about what takes long: a job that waits, bytes that travel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpulayer.api.paths import job_path
from gpulayer.api.wire import Wire
from gpulayer.cli import render
from gpulayer.errors import GPULayerError


@contextmanager
def told_after(seconds: float, wire: Wire, job_id: str | None) -> Iterator[None]:
    """While inside: say what the job still waits for, once, after that time. None: say nothing."""
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


@contextmanager
def told_while(text: Callable[[], str], first: float | None, again: float | None) -> Iterator[None]:
    """While inside: say how it stands after `first` seconds, and from then on every `again`. None:
    not at all, and not again."""
    ended = threading.Event()

    def tell() -> None:
        pause = first
        while pause is not None and not ended.wait(pause):
            render.say(text())
            pause = again

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def prepares(phase: str | None) -> str:
    """What of a preparation takes long: `its image: 2 of 5 layers`."""
    long = ("environment", "image", "secrets", "checkpoint")
    return f"its {phase}" if phase and phase.startswith(long) else ""


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
    elif job["state"] == "scheduled" and (what := prepares(job["phase"])):
        render.say(f"{job_id} prepares {what}")
