"""Folders of tasks that nobody knows any more: their workspace stays for a while, their agent died
in the middle, or was ended."""

from __future__ import annotations

import os
from collections.abc import Container

from gpulayer.contracts import keeping
from gpulayer.worker import room
from gpulayer.worker.steps import plan, workspace


def sweep(folder: str, known: Container[str], now: float, most_bytes: int | None = None) -> int:
    """Remove the folders of tasks that are not `known`; how many. One whose workspace holds
    something goes once it is old, or all of them hold more than `most_bytes`, for which every file
    is looked at. A task is known before its folder is made."""
    found = ended(folder, known)
    kept: list[os.DirEntry[str]] = []
    doomed: list[os.DirEntry[str]] = []
    for entry in found:
        (kept if _is_kept(entry, now) else doomed).append(entry)
    if most_bytes is not None:
        left = room.at_most(folder, most_bytes, keeping.WORKSPACE_DISK_PART)
        for entry in sorted(kept, key=_ended_at, reverse=True):
            left -= room.held(entry.path)
            if left < 0:
                doomed.append(entry)
    for entry in doomed:
        workspace.remove(entry.path)
    return len(doomed)


def ended(folder: str, known: Container[str]) -> list[os.DirEntry[str]]:
    """The folders of tasks that have ended: of what they left."""
    try:
        with os.scandir(folder) as entries:
            return [e for e in entries if _is_of_a_task(e) and e.name not in known]
    except FileNotFoundError:
        return []  # the home was deleted


def _is_of_a_task(entry: os.DirEntry[str]) -> bool:
    is_named = entry.name[:1] == "t" and entry.name[1:].isdigit()
    return is_named and entry.is_dir(follow_symlinks=False)


def _is_kept(entry: os.DirEntry[str], now: float) -> bool:
    try:
        if not os.listdir(plan.workspace(entry.path)):
            return False
        return now - _ended_at(entry) < keeping.WORKSPACE_SECONDS
    except OSError:
        return False


def _ended_at(entry: os.DirEntry[str]) -> float:
    return entry.stat(follow_symlinks=False).st_mtime
