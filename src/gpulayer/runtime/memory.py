"""How many processes the kernel has ended for want of memory, where it counts them.

The nearest count is read: that of the memory group in which this process and its jobs are
(`memory.events` of cgroup v2, `memory.oom_control` of v1), else that of the whole machine (vmstat).
The group may hold others as well, so a count that grew while a job ran is evidence only about a
job that SIGKILL ended, and that nobody here killed. A container has a group that an engine made and
has removed by then; what the kernel ended there is in the count of the whole machine.
"""

from __future__ import annotations

import os

from gpulayer.runtime import hierarchy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE = "/proc/vmstat"
_path: str | None = None
_LONGEST = 1 << 16


def kills(*, everywhere: bool = False) -> int:
    """The count now, the nearest or that of the whole machine; 0 where there is none."""
    global _path
    if _path is None:
        _path = nearest()
    try:
        fd = os.open(WHOLE if everywhere else _path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return counted(os.read(fd, _LONGEST))
    finally:
        os.close(fd)


def counted(text: bytes) -> int:
    """The number behind `oom_kill`, in any of the files that have it."""
    for line in text.splitlines():
        name, _, number = line.partition(b" ")
        if name == b"oom_kill":
            return int(number)
    return 0


def nearest() -> str:
    """The file that counts; empty where there is none."""
    return next((path for path in _places() if os.access(path, os.R_OK)), "")


def _places() -> Iterator[str]:
    """Files that may count, the nearest first."""
    own = dict(hierarchy.own_groups())
    for kind, mount, options in hierarchy.mounts():
        if kind == "cgroup2":
            yield from _upwards(mount, own.get("", ""), "memory.events")
        elif kind == "cgroup" and "memory" in options.split(","):
            yield from _upwards(mount, own.get("memory", ""), "memory.oom_control")
    yield WHOLE


def _upwards(mount: str, group: str, name: str) -> Iterator[str]:
    """In a container the mount may begin at the group itself, which has another name outside."""
    while group:
        yield mount + group + "/" + name
        group = group.rpartition("/")[0]
    yield mount + "/" + name
