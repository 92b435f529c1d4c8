"""Folders and files that are on the disk, and not only on their way there."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

_MANY = 32


def make_folder(path: Path) -> bool:
    """Whether it was not there before."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def sync_folder(path: Path) -> None:
    """A rename is on the disk only when its folder is (fsync(2))."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush(paths: Collection[str], folder: Path) -> None:
    """Put them on the disk: one by one, or at once by syncing the whole file system (syncfs(2))
    where there are many and the system can."""
    if len(paths) >= _MANY and _syncfs(folder):
        return
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """The same for every file in a folder; what its links point to is left alone."""
    files = [
        entry
        for parent, _, names in os.walk(folder)
        for name in names
        if not os.path.islink(entry := os.path.join(parent, name))
    ]
    flush(files, folder)


def _syncfs(folder: Path) -> bool:
    import ctypes

    sync = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if sync is None:
        return False
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if sync(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)
    return True
