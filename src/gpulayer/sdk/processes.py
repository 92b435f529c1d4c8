"""Which processes of ours serve a home, found from outside: by what they were started as.

Each daemon carries the runtime folder in its arguments, so that a dead plane's agent is found too.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpulayer.sdk.places import Places

KINDS = {
    "gpulayer.sdk.plane_process": "plane",
    "gpulayer.cli.serve_process": "plane",
    "gpulayer.sdk.agent_process": "agent",
    "gpulayer.sdk.joined_process": "agent",
    "gpulayer.sdk.joined_warden": "warden",
    "gpulayer.runtime.supervisor": "supervisor",
}

LEAVE_SECONDS = 10.0
"""How long each kind may take to leave in good order."""


def running(places: Places) -> list[tuple[str, int]]:
    """(kind, pid) of each plane, agent and supervisor of this home; keepers are the supervisor's
    own and carry its name."""
    found = []
    for pid, words in _commands():
        kind = next((KINDS[name] for name in KINDS if name in words[3]), None)
        if kind is not None and places.runtime in words[4:]:
            found.append((kind, pid))
    return sorted(found)


def wake(places: Places) -> None:
    """Let those go on that somebody has stopped: a stopped process can neither answer nor leave."""
    for _, pid in running(places):
        process = _Watched(pid)
        process.send(signal.SIGCONT)
        process.close()


def end(places: Places, *kinds: str) -> None:
    """End what is left of those kinds (or all), and wait for each: TERM, then KILL. A supervisor
    ends its tasks first. Safe to repeat."""
    for kind in kinds or ("plane", "warden", "agent", "supervisor"):
        gone = [_Watched(pid) for found, pid in running(places) if found == kind]
        _end(gone)
        for process in gone:
            process.close()


@contextmanager
def ended(pid: int) -> Iterator[None]:
    """The process is told to leave within; when that is left, it is gone."""
    process = _Watched(pid)
    try:
        yield
        if not process.wait(LEAVE_SECONDS):
            _end([process])
    finally:
        process.close()


def _end(gone: Sequence[_Watched]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in gone:
            process.send(number)
        if all(process.wait(LEAVE_SECONDS) for process in gone):
            break


class _Watched:
    """A process that is never mistaken for a later one with its number (pidfd_open(2))."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._fd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
        except OSError:
            self._fd, self._pid = -1, 0

    def send(self, number: signal.Signals) -> None:
        try:
            if self._fd >= 0:
                signal.pidfd_send_signal(self._fd, number)
            elif self._pid:
                os.kill(self._pid, number)
        except ProcessLookupError:
            pass

    def wait(self, seconds: float) -> bool:
        """Whether it is gone within that time."""
        if self._fd >= 0:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        for _ in range(int(seconds * 100)):
            if not self._pid or not _exists(self._pid):
                return True
            select.select((), (), (), 0.01)
        return False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _commands() -> list[tuple[int, list[str]]]:
    """(pid, words) of this user's processes with at least as many words as a daemon has."""
    if not os.path.isdir("/proc/self"):
        return _commands_by_ps()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="surrogateescape") as f:
                    words = f.read().split("\0")[:-1]
            except OSError:
                continue  # gone, or somebody else's
            words = [word for word in words if word != "-S"]
            if len(words) > 4 and words[1] == "-I":
                found.append((int(name), words))
    return found


def _commands_by_ps() -> list[tuple[int, list[str]]]:
    """Where there is no /proc. Words are not told apart there, so the whole line counts as each."""
    lines = subprocess.run(
        ["ps", "-xww", "-o", "pid=,command="], check=False, capture_output=True, text=True
    ).stdout.splitlines()
    found = []
    for line in lines:
        pid, _, command = line.strip().partition(" ")
        if " -I " in command:
            found.append((int(pid), ["", "-I", "-c", command, *command.split(" ")]))
    return found
