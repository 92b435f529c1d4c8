"""Folders of ended tasks that stand ready for the next ones.

On a disk with a journal a new folder and its removal take a short command longer than its own
process: the system looks for a place for it, and writes that down. A new name costs a tenth.
"""

from __future__ import annotations

import os
import stat
from collections import deque

from gpulayer.worker.steps import plan

MOST = 64
"""Are kept. Each holds nothing but an empty output folder."""

_PRIVATE = stat.S_IFDIR | 0o700


class Spares:
    """Thread-safe. What an earlier agent kept is removed with the first that this one keeps."""

    def __init__(self, tasks: str) -> None:
        """`tasks`: where the folders of tasks are."""
        self._folder = os.path.join(tasks, "spare")
        self._names: deque[str] = deque()
        self._is_ready = False

    def take(self, folder: str) -> bool:
        """Give one the name `folder`, which is not there, or empty. False: there is none."""
        try:
            os.rename(os.path.join(self._folder, self._names.pop()), folder)
        except (IndexError, OSError):
            return False
        return True

    def keep(self, folder: str) -> bool:
        """Take what is left of a task, if it is as it was made: whoever gets it next must find
        neither a file nor a mode of an earlier job. False: it stays where it is."""
        if len(self._names) >= MOST or not _is_as_made(folder):
            return False
        name = os.path.basename(folder)
        try:
            self._make_ready()
            os.rename(folder, os.path.join(self._folder, name))
        except OSError:
            return False
        self._names.append(name)
        return True

    def _make_ready(self) -> None:
        if self._is_ready:
            return
        os.makedirs(self._folder, 0o700, exist_ok=True)
        for name in os.listdir(self._folder):
            left = os.path.join(self._folder, name)
            os.rmdir(plan.outputs(left))
            os.rmdir(left)
        self._is_ready = True


def _is_as_made(folder: str) -> bool:
    inner = plan.outputs(folder)
    try:
        return (
            os.lstat(folder).st_mode == os.lstat(inner).st_mode == _PRIVATE
            and os.listdir(folder) == [os.path.basename(inner)]
            and not os.listdir(inner)
        )
    except OSError:
        return False
