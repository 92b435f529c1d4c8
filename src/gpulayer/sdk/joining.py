"""Joining a server, and leaving it: the steps, each of which may be the last before a crash.

    join     enrol with the code of a line, note what was agreed, begin
    begin    start the warden, and wait until the worker has registered
    leave    be given no more work, let what runs end, give the session back, end the processes

The worker's secret is written down before it is sent, so that a join that was interrupted is
gone on with by the same line.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable, Mapping

from gpulayer.api.endpoints import Address
from gpulayer.api.wire import Wire
from gpulayer.contracts.principals import CredentialKind
from gpulayer.errors import GPULayerError, RefusedError, UnreachableError
from gpulayer.runtime import daemon, frames
from gpulayer.sdk import enrolment, processes
from gpulayer.sdk.declared import environment_file
from gpulayer.sdk.joined import KINDS, Facts, Joined
from gpulayer.sdk.servers import Server
from gpulayer.sdk.siblings import ANSWER_SECONDS, greeted

START_SECONDS = 30.0
"""Longest wait for the first registration; the worker goes on trying after it."""
LOOK_SECONDS = 0.25
"""How often a worker that leaves looks whether its jobs have ended."""


def join(joined: Joined, address: Address, code: str, name: str | None, python: str) -> Facts:
    """Enrol this machine; what was agreed. Nothing is started. Raises what the server answers;
    nothing is kept then."""
    invite, known = enrolment.invite_of(code), joined.facts()
    joined.places.create()
    previous = joined.session() if known is not None and known.name else None
    if known is not None and known.invite == invite and previous is not None:
        secret, previous = previous, None  # the same line again: its answer was lost
    else:
        secret = enrolment.new_secret(CredentialKind.WORKER)
    wish = name or (known.name if known is not None else "") or _host_name()
    joined.keep_session(secret)
    joined.write(Facts(address.endpoint.url, wish, invite, python))
    try:
        made = enrolment.enrol(
            address.endpoint, code, secret, wish, may_rename=name is None, previous=previous
        )
    except RefusedError:
        joined.remove()
        raise
    facts = Facts(address.endpoint.url, str(made["worker"]), invite, python)
    joined.write(facts)
    joined.begin_anew()
    return facts


def begin(joined: Joined, environ: Mapping[str, str]) -> str:
    """Start warden and agent; those that run already give way to ones that have this environment,
    and jobs do not notice. Empty once the worker has registered, else why it has not yet."""
    processes.end(joined.places, "warden", "agent")
    joined.places.create()
    told, write = os.pipe2(os.O_CLOEXEC)
    try:
        with environment_file(environ) as environment:
            daemon.launch(
                "gpulayer.sdk.joined_warden",
                joined.argv(),
                log=joined.places.process_log("warden"),
                fds=[write, environment.fileno()],
            )
        os.close(write)
        write = -1
        return heard(told)
    finally:
        os.close(told)
        if write >= 0:
            os.close(write)


def heard(told: int) -> str:
    """The agent's first word, as `begin` answers it."""
    ready, _, _ = select.select([told], [], [], START_SECONDS)
    word = os.read(told, 4096) if ready else b""
    if not ready:
        return f"the server does not answer; it is tried again (waited {START_SECONDS:.0f} s)"
    if not word:
        return "the worker could not start"
    return str(json.loads(word).get("error") or "")


def leave(joined: Joined, *, at_once: bool, waits: Callable[[int], object]) -> str:
    """End this worker. Empty, or why the server could not be told. `waits` is called with the
    number of jobs that are waited for, when that changes. Twice-safe."""
    facts, secret = joined.facts(), joined.session()
    is_another = secret is None and bool(joined.ended())  # the server's worker is not this one
    wire = None if facts is None or secret is None else Server("", facts.endpoint, secret).wire()
    untold = _tell(wire, facts, "drain")
    if not at_once:
        _until_idle(joined, waits)
    processes.end(joined.places, KINDS[0])
    if not untold:
        untold = _tell(wire, facts, "revoke")
    processes.end(joined.places, *KINDS[1:])
    if wire is not None:
        wire.close()
    joined.remove()
    return "" if is_another else untold


def _tell(wire: Wire | None, facts: Facts | None, action: str) -> str:
    if wire is None or facts is None:
        return "its session cannot be read"
    try:
        wire.call("POST", f"/v1/workers/{facts.name}/{action}", {})
    except UnreachableError as error:
        return error.why or error.message
    except GPULayerError as error:
        # What the server does not know any more need not be told.
        return "" if error.code in ("unauthorized", "worker-not-found") else error.message
    return ""


def _until_idle(
    joined: Joined, waits: Callable[[int], object], answer_seconds: float = ANSWER_SECONDS
) -> None:
    """Return once the supervisor has no task, or is not there; its silence says neither. The end
    of a task is the plane's to record, so one that has ended and was not reported counts."""
    last = 0
    while joined.runs():
        count = _tasks(joined, answer_seconds)
        if count == 0:
            return
        if count is not None and count != last:
            last = count
            waits(count)
        select.select((), (), (), LOOK_SECONDS)


def _tasks(joined: Joined, answer_seconds: float) -> int | None:
    """None: it is there, and does not say."""
    try:
        with greeted(joined.places, answer_seconds) as (supervisor, _):
            return len(supervisor.call("list")["tasks"])
    except (TimeoutError, BlockingIOError):  # a busy machine, a full backlog
        return None
    except (OSError, EOFError, frames.Refused, frames.ProtocolError):
        return 0


def _host_name() -> str:
    text = os.uname().nodename.partition(".")[0]
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in text)
    return kept[:63] or "worker"
