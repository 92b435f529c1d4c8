"""The local plane as its clients see it: there when needed, started if not, ended on request.

    ensure_plane   a connection to the plane of this home, which is started when nobody answers
    start          the start protocol; of any number of starters one spawns, the others look
    stop           end plane, agent and supervisor, and wait until nothing of them is left

A starter holds `start.lock` only out of politeness; the truth is `plane.lock`, which the plane
itself holds. The starter reads a pipe whose other end is the plane's: `{"ok": ...}` when it
serves, the error when it cannot, and its end without a word when it died, which is tried again.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import sys

from gpulayer._version import __version__, ordered
from gpulayer.api.wire import Wire
from gpulayer.clock import SystemClock
from gpulayer.errors import GPULayerError, RefusedError, UnreachableError
from gpulayer.sdk.places import Places
from gpulayer.sdk.waiting import look_again, unreachable
from gpulayer.slugs import error_from_json

START_SECONDS = 20.0
"""Longest wait for a plane that somebody is starting."""
POLITE_SECONDS = 5.0
"""How long a starter waits for another one before it spawns a candidate of its own."""
REVIVALS = 30
"""Planes in a row that may be leaving when a call reaches them; each is waited for, and another
terminal may do nothing but stop them."""
LEAVE_SECONDS = 3.0
"""How long agent and supervisor may stay after their plane."""
TRIES = 10
"""Candidates that may die without a word (SIGKILL): any other end is told through the pipe."""


def ensure_plane(places: Places) -> Wire:
    """A client of the plane of these places; a plane is listening when it returns.

    An older plane is used as it is, and replaced in the background by one of this version. The
    client starts a plane again whenever it finds none. Inside a job nothing is started.

    Raises `plane-unreachable` at once where somebody has stopped the plane's process.
    """
    if answers(places.plane_socket):
        pid, version = _holder(places.plane_lock)
        _refuse_stopped(pid, places)
        _replace_older(version, places)
    else:
        start(places)
    return Wire(places.plane_socket, revive=lambda: start(places), tries=REVIVALS)


def answers(path: str) -> bool:
    """Whether somebody listens on that socket. A full backlog is somebody who is busy."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return True


def start(places: Places) -> None:
    """Return once a plane listens; start one if nobody does. Any number of callers at once.

    Raises the plane's own error when it cannot start, `plane-start-failed` when it dies, and
    `inside-job` inside a job.
    """
    if answers(places.plane_socket):
        return
    _refuse_inside_job(places)
    places.create()
    if notice := places.say_once():
        sys.stderr.write(f"gpulayer: {notice}\n")
    clock = SystemClock()
    begun = clock.monotonic()
    lock = _open(places.start_lock)
    try:
        while not _taken(lock) and clock.monotonic() < begun + POLITE_SECONDS:
            look_again()
            if answers(places.plane_socket):
                return
        for _ in range(TRIES):
            if answers(places.plane_socket) or _spawn_and_wait(places, clock):
                return
    finally:
        os.close(lock)
    raise start_failed(places, "it died before it could say why")


def stop(places: Places, *, force: bool = False) -> bool:
    """End the plane, its agent and its supervisor; whether there was anything to end.

    Refused by the plane while jobs run, unless `force`. Returns when all are gone. A plane that
    came meanwhile, as heir of the one that was told or because a client asked for one, is told
    too; where others keep starting them, one may be left.
    """
    from gpulayer.sdk.processes import end, running, wake
    from gpulayer.sdk.siblings import dismiss

    _until_born(places)
    if not running(places):
        return False
    wake(places)
    for is_last in (False, False, False, True):
        try:
            _stop_plane(places, force=force)
        except GPULayerError as error:
            if isinstance(error, RefusedError) or (is_last and not force):
                raise
        if force:
            end(places)
        if not _is_left_over(places):
            break
    else:
        if not answers(places.plane_socket):
            dismiss(places)
            if not answers(places.supervisor_socket):  # else a job runs
                end(places, "supervisor")
    _empty(places)
    return True


def _until_born(places: Places) -> None:
    """Return once nobody starts a plane, or after a while. One between its fork and its exec is
    found by nobody; it holds its starter's lock till then, though the starter may have ended."""
    try:
        lock = os.open(places.start_lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # nobody ever has
    clock = SystemClock()
    deadline = clock.monotonic() + POLITE_SECONDS
    while not _taken(lock) and clock.monotonic() < deadline:
        look_again()
    os.close(lock)


def _stop_plane(places: Places, *, force: bool) -> None:
    """Tell the plane to end, and wait for it. Where a killed one left agent or supervisor behind,
    another is started first: it knows whether jobs run."""
    from gpulayer.sdk.processes import ended

    start(places)
    pid, _ = _holder(places.plane_lock)
    with ended(int(pid or 0)):
        Wire(places.plane_socket, tries=1).call("POST", "/v1/stop", {"force": force})


def _is_left_over(places: Places) -> bool:
    """Whether another plane is there, or what belonged to one stays; a moment is theirs to leave.
    Beside a plane they are not ours to end: it may have accepted a job."""
    from gpulayer.sdk.processes import running

    clock = SystemClock()
    deadline = clock.monotonic() + LEAVE_SECONDS
    while running(places):
        if answers(places.plane_socket) or clock.monotonic() >= deadline:
            return True
        look_again()
    return False


def _empty(places: Places) -> None:
    """Remove the environments of terminals that were kept for jobs: after a stop no job has need
    of one. Nobody starts a plane meanwhile, and where somebody has, they are left to it."""
    from gpulayer.sdk.processes import running

    try:
        lock = _open(places.start_lock)
    except GPULayerError:
        return  # the folder is gone, and they with it
    try:
        if _taken(lock) and not running(places):
            for name in os.listdir(places.envelopes):
                os.unlink(os.path.join(places.envelopes, name))
    except FileNotFoundError:
        pass
    finally:
        os.close(lock)


def start_failed(places: Places, why: str) -> Exception:
    """The error for a plane that did not come up, with the last line that it wrote."""
    log = places.process_log("plane")
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            last = file.read()[-2000:].strip().rsplit("\n", 1)[-1]
    except OSError:
        last = ""
    why = f"{why}: {last}" if last else why
    return unreachable("the local plane could not start", log, why, "plane-start-failed")


def _spawn_and_wait(places: Places, clock: SystemClock) -> bool:
    """Whether a plane serves now; False: the candidate died without a word."""
    told = _spawn(places)
    try:
        ready, _, _ = select.select([told], [], [], START_SECONDS)
        if not ready:
            raise start_failed(places, f"no word within {START_SECONDS:.0f} s")
        with os.fdopen(told, "rb", closefd=False) as pipe:
            word = pipe.readline()
    finally:
        os.close(told)
    if not word:
        return False
    reply = json.loads(word)
    if "error" in reply:
        raise error_from_json(reply["error"])
    return True


def _spawn(places: Places, *flags: str) -> int:
    """Start a candidate; the read end of its pipe."""
    from gpulayer.sdk.siblings import start_plane

    read, write = os.pipe()
    try:
        start_plane(places, write, *flags)
    except OSError as error:
        os.close(read)
        raise start_failed(places, str(error)) from error
    finally:
        os.close(write)
    return read


def _refuse_stopped(pid: str, places: Places) -> None:
    """A process in the state T (proc_pid_stat(5)) would not answer however long one waits."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return  # it has gone, or there is no /proc
    if state == "T":
        raise UnreachableError(
            "plane-unreachable",
            f"the plane, process {pid}, is stopped",
            where=places.plane_socket,
            why="somebody sent it SIGSTOP, or pressed Ctrl-Z where it runs",
            hint=f"kill -CONT {pid}",
        )


def _replace_older(running: str, places: Places) -> None:
    """Start the hot swap of an older plane and go on; it takes the lock and listener over."""
    if running and ordered(running) < ordered(__version__) and "GPULAYER_JOB_ID" not in os.environ:
        os.close(_spawn(places, "--takeover"))


def _holder(lock: str) -> tuple[str, str]:
    """Process number and version that the plane wrote into its lock; empty if there is none."""
    try:
        with open(lock, encoding="utf-8", errors="replace") as file:
            lines = file.read(4096).split("\n")
    except OSError:
        return "", ""
    return (lines[0], lines[2]) if len(lines) > 3 else ("", "")


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        from gpulayer.sdk.disk import disk_error

        raise disk_error(error, path) from error


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _refuse_inside_job(places: Places) -> None:
    outer = os.environ.get("GPULAYER_JOB_ID")
    if outer:
        raise UnreachableError(
            "inside-job",
            "no plane answers, and a job must not start one: it would end with the job",
            where=places.plane_socket,
            why=f"this process belongs to job {outer}",
            hint="gpulayer ps",
        )
