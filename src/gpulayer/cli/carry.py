"""What the starting verbs send along with a job, and what they bring home at its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpulayer.api.paths import job_path
from gpulayer.cli import render, waiting
from gpulayer.cli.session import connect_to
from gpulayer.errors import UsageError

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire
    from gpulayer.sdk.packing import Packed
    from gpulayer.sdk.servers import Elsewhere

PARK = 30.0
QUIET_SECONDS, AGAIN_SECONDS = 3.0, 10.0
"""When a long transfer is first worth a word, and when the next one."""


def packed(
    spec: Mapping[str, Any], flags: Mapping[str, Any], server: Elsewhere | None
) -> Packed | None:
    """The job with its source and inputs; None where nothing travels: a job here runs in its
    folder, unless it is told otherwise."""
    source, inputs = flags.get("source"), flags.get("inputs") or ()
    if server is None and source is None and not inputs:
        return None
    from gpulayer.sdk.packing import NONE, pack
    from gpulayer.sdk.places import Places

    said = source or (None if server is not None else NONE)
    file = (spec.get("environment") or {}).get("file")
    if file and server is not None and source == NONE:
        raise UsageError(
            "usage",
            f"-r {file} goes along with the folder, and --source none sends none",
            hint="--source .",
        )
    return pack(
        spec,
        source=said,
        inputs=inputs,
        places=Places.find(),
        job=lambda selector: connect_to(server).call("GET", job_path(selector)),
    )


def carry(
    spec: dict[str, Any], flags: Mapping[str, Any], server: Elsewhere | None, *, is_talking: bool
) -> dict[str, Any]:
    """Send along what the plane lacks; the job that names it."""
    if spec.get("image"):
        from gpulayer.sdk.images import with_digests

        spec = dict(with_digests([spec])[0])
    made = packed(spec, flags, server)
    if made is None:
        return spec
    if is_talking:
        for line in made.say():
            render.say(render.plain(line))
    made.send(connect_to(server))
    return made.spec


def with_stdin(spec: dict[str, Any], wire: Wire, *, is_talking: bool) -> dict[str, Any]:
    """The job with what we can read on standard input, sent along. However long that takes, it is
    never waited for without a word. Ctrl-C ends us, with nothing submitted."""
    from gpulayer.sdk import standard_input
    from gpulayer.sdk.sending import send_lacking

    taken = [0]
    again = AGAIN_SECONDS if is_talking else None
    reading = "reading standard input to its end: {} so far (--stdin none: the job gets none)"
    with waiting.told_while(lambda: reading.format(render.size(taken[0])), QUIET_SECONDS, again):
        found = standard_input.taken(0, lambda size: taken.__setitem__(0, size))
    if found is None:
        return spec
    if is_talking:
        render.say(f"stdin: {render.size(found.size)}")
    sending = "sending standard input: {} of " + render.size(found.size)
    pause = QUIET_SECONDS if is_talking else None
    with waiting.told_while(lambda: sending.format(render.size(found.place)), pause, again):
        send_lacking(wire, [found])
    return found.onto(spec)


def require_attached(get: str | None, *, detach: bool) -> None:
    if get and detach:
        raise UsageError(
            "usage",
            "--get waits for the job's end, and --detach does not",
            hint="gpulayer get last",
        )


def bring(wire: Wire, job_id: str, folder: str) -> None:
    """The outputs of an ended job, into `folder`; `.`: into one that is called as the job is."""
    from pathlib import Path

    from gpulayer.cli.get import fetch_job

    job = ended(wire, job_id)
    if not job.get("outputs"):
        render.say(f"{job_id} left no files")
        return
    for path in fetch_job(wire, job, None if folder == "." else Path(folder)):
        render.say(f"got {render.plain(path)}")


def ended(wire: Wire, job_id: str) -> dict[str, Any]:
    """The job once its end is on record: its process may be over while its files still travel."""
    while True:
        job: dict[str, Any] = wire.call("GET", job_path(job_id, wait=PARK), park=PARK)
        if job["finished_at"] is not None:
            return job


def left_words(job: Mapping[str, Any]) -> str:
    """`3 files (1.2 GB) stay in its workspace for a day: a.ckpt, b.log, ...`; nothing if none."""
    left = job.get("left")
    if not left:
        return ""
    count, paths = int(left["count"]), [str(path) for path in left["paths"]]
    shown = ", ".join(paths[:_SHOWN]) + (", ..." if count > _SHOWN else "")
    stay = "file stays" if count == 1 else "files stay"
    return f"{count} {stay} in its workspace for a day ({render.size(left['bytes'])}): {shown}"


_SHOWN = 5
