"""Processes that are ours: reaping the dead, and finding the living below one of us.

A process that is a subreaper (prctl(2) PR_SET_CHILD_SUBREAPER) becomes the parent of every orphan
below it, so `wait` finding no child at all proves that nothing below is left. Only Linux has
this, and procfs.
"""

from __future__ import annotations

import ctypes
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_PR_SET_CHILD_SUBREAPER = 36


class Children:
    """Reaps every child; those that are watched get told. `others` is called after each round.

    With `stops` a watched child's stops and continuations are told as well.
    """

    def __init__(self, *, stops: bool = False, others: Callable[[], object] = lambda: None) -> None:
        self._calls: dict[int, Callable[[int, Any], object]] = {}
        self._others = others
        self._flags = os.WNOHANG | (os.WUNTRACED | os.WCONTINUED if stops else 0)
        self.none_left = False
        """Whether the last round found no child at all, living or dead."""

    def watch(self, pid: int, call: Callable[[int, Any], object]) -> None:
        """Calls with (status, rusage) of wait4(2)."""
        self._calls[pid] = call
        self.none_left = False

    def watched(self) -> set[int]:
        return set(self._calls)

    def reap(self) -> None:
        """To be called at each SIGCHLD: one signal may stand for many."""
        self.none_left = False
        while True:
            try:
                pid, status, usage = os.wait4(-1, self._flags)
            except ChildProcessError:
                self.none_left = True
                break
            if pid == 0:
                break
            over = os.WIFEXITED(status) or os.WIFSIGNALED(status)
            call = self._calls.pop(pid, None) if over else self._calls.get(pid)
            if call is not None:
                call(status, usage)
        self._others()


def adopt_orphans() -> bool:
    """Makes this process a subreaper. Not inherited by fork. False where the system has none."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return False
    return bool(prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def children(pid: int) -> list[int]:
    """The children of a process now; empty where it is gone."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
        except OSError:
            pass
    return found


def descendants(pid: int, *, but: frozenset[int] = frozenset()) -> list[int]:
    """Everything below a process now, parents first, less the trees that begin at `but`."""
    found: list[int] = []
    waiting = [child for child in children(pid) if child not in but]
    while waiting:
        found += waiting
        waiting = [child for parent in waiting for child in children(parent)]
    return found


def kill_descendants(pid: int, *, but: frozenset[int] = frozenset()) -> int:
    """One round of stop-all, kill-all below `pid`; returns how many it met.

    Stopping first keeps a storm of forks from outrunning the round. A fork that came between is
    ours to find in the next round, which the death of its parent brings about.
    """
    met = descendants(pid, but=but)
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for child in met:
            try:
                os.kill(child, signum)
            except ProcessLookupError:
                pass
    return len(met)


def marked(marker: bytes) -> list[int]:
    """Processes whose environment holds the entry `marker`. Those that cleared it are not found."""
    return [pid for pid, entries in environments() if marker in entries]


def environments() -> Iterator[tuple[int, list[bytes]]]:
    """Each process whose environment may be read, with its entries (proc_pid_environ(5))."""
    names = os.listdir("/proc") if os.path.isdir("/proc") else ()
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    entries = file.read().split(b"\0")
            except OSError:
                continue
            yield int(name), entries


def end_marked(marker: bytes) -> int:
    """Kills what `marked` finds until it finds nothing; returns how many. Never a stranger: the
    process is pinned (pidfd_open(2)) before its environment is read again."""
    ended: set[int] = set()
    while True:
        found = [pid for pid in marked(marker) if pid != os.getpid() and _state(pid) != "Z"]
        if not found:
            return len(ended)
        for pid in found:
            if _kill_if_marked(pid, marker):
                ended.add(pid)


def _kill_if_marked(pid: int, marker: bytes) -> bool:
    try:
        pin = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    except OSError:
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            is_ours = marker in file.read().split(b"\0")
        if is_ours and pin >= 0:
            signal.pidfd_send_signal(pin, signal.SIGKILL)
        elif is_ours:
            os.kill(pid, signal.SIGKILL)
        return is_ours
    except OSError:
        return False
    finally:
        if pin >= 0:
            os.close(pin)


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return "Z"
