"""`gpulayer run` where a server is chosen: the job runs there, its output and its end are here."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpulayer.cli import carry, render, waiting
from gpulayer.cli.run import OURS, WAIT_SECONDS, tell_end
from gpulayer.clock import SystemIds
from gpulayer.sdk import interrupts
from gpulayer.sdk.far import far_origin
from gpulayer.sdk.far_attach import FarAttachment

if TYPE_CHECKING:
    from gpulayer.api.wire import Wire
    from gpulayer.sdk.servers import Elsewhere


def attached(
    server: Elsewhere,
    spec: dict[str, Any],
    words: list[str],
    key: str | None,
    is_talking: bool,
    with_stdin: bool,
    get: str | None = None,
) -> int:
    """Submit, follow until the end, and end as the job did. 125 and up only for what is ours."""
    if with_stdin and _has_input(0):
        render.say(
            "note: the job gets no standard input: it is not carried to another machine yet "
            "(--stdin none says so on purpose)"
        )
    body = {
        "spec": spec,
        "origin": far_origin(words),
        "idempotency_key": key or SystemIds().token(26),
    }
    wire = server.wire()
    where = f" on {server.name}" if server.name else ""
    return followed(wire, lambda: wire.call("POST", "/v1/jobs", body), where, is_talking, get)


def followed(
    wire: Wire,
    submit: Callable[[], dict[str, Any]],
    where: str,
    is_talking: bool,
    get: str | None = None,
) -> int:
    """Submit a job that is seen by its log alone, and stay with it as `attached` does."""
    with FarAttachment(render.say, is_talking=is_talking) as attachment:
        job = submit()
        if is_talking:
            render.say(f"job {job['id']}{where}")
            if job["note"]:
                render.say(render.plain(job["note"]))
        with waiting.told_after(WAIT_SECONDS, wire, job["id"] if is_talking else None):
            report = attachment.relay(wire, job["id"], in_ranks=job["ranks"] > 1)
    if report.outcome != "left" and (is_talking or report.exit_code in OURS):
        tell_end(wire, job["id"], report, is_talking)
    if get and report.outcome != "left":
        carry.bring(wire, job["id"], get)
    interrupts.end_as(report)
    return int(report.exit_code)


def _has_input(fd: int) -> bool:
    """Whether something waits to be read that is not typed by a person."""
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode):
            return found.st_size > os.lseek(fd, 0, os.SEEK_CUR)
        if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
            return bool(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0])
    except OSError:
        pass  # closed: nothing can be read
    return False
