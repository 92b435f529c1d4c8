"""How much of a disk what is kept may take."""

from __future__ import annotations

import os


def at_most(folder: str, most_bytes: int, part: float) -> int:
    """Bytes: `most_bytes`, or that part of the disk of `folder` where it is less."""
    disk = os.statvfs(folder)
    return min(most_bytes, int(disk.f_blocks * disk.f_frsize * part))


def held(folder: str) -> int:
    """Bytes that the files in `folder` take on their disk. One with several names is counted once
    for each. Links are not followed, and what goes meanwhile counts nothing."""
    found = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                found += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return found
