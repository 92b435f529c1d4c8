"""Which files somebody holds open to write in them. Asked of the kernel, where it tells (proc(5)):
of the processes of our own user, which those of a job are."""

from __future__ import annotations

import os
from collections.abc import Collection

_WRITES = os.O_WRONLY | os.O_RDWR


def written(files: Collection[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Those among them, each as (device, inode). Where the system does not tell, none."""
    found: set[tuple[int, int]] = set()
    if not files or not os.path.isdir("/proc/self/fdinfo"):
        return frozenset()
    for process in os.listdir("/proc"):
        if process.isdigit():
            found |= _of(process, files)
    return frozenset(found)


def lives(pid: int) -> bool:
    """Whether that process is there and has not ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return False
    except OSError:
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _of(process: str, files: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    try:
        numbers = os.listdir(f"/proc/{process}/fd")
    except OSError:
        return found  # another user's, or it has ended
    for number in numbers:
        try:
            seen = os.stat(f"/proc/{process}/fd/{number}")
            if (seen.st_dev, seen.st_ino) in files and _is_to_write(process, number):
                found.add((seen.st_dev, seen.st_ino))
        except OSError:
            continue
    return found


def _is_to_write(process: str, number: str) -> bool:
    with open(f"/proc/{process}/fdinfo/{number}", encoding="ascii") as file:
        for line in file:
            if line.startswith("flags:"):
                return bool(int(line.split()[1], 8) & _WRITES)
    return False
