"""The folders of one task, readable by its user alone."""

from __future__ import annotations

import os
import shutil
import stat

from gpulayer.artifacts import collect
from gpulayer.worker.steps import plan
from gpulayer.worker.steps.plan import TaskPlan

ROOM_PART = 0.1
"""Of the disk that must be free for a workspace to stay."""


def make(task: TaskPlan) -> None:
    """Empty, also where an earlier try of the same task left something. A job with no terminal
    behind it runs in its workspace. One that runs in a folder of its user's has the task's own
    folder for one: each folder more costs a short command a fiftieth of all its work."""
    paths = []
    if not task.take_spare(task.folder):
        os.makedirs(task.folder, 0o700, exist_ok=True)
        paths.append(plan.outputs(task.folder))
    task.undo.callback(remove, task.folder)
    if task.spec.get("inputs") or not task.in_place:
        paths.append(plan.inputs(task.folder))
    if not task.in_place:
        paths.append(plan.workspace(task.folder))
    if not task.here:
        task.cwd = plan.workspace(task.folder)
    for path in paths:
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            _remove_tree(path)
            os.mkdir(path, 0o700)


def let_go(folder: str) -> None:
    """The task is over. What it left in its workspace stays for a while, where the disk has room;
    see `leftovers`. Everything else goes."""
    work = plan.workspace(folder)
    if collect.left_behind(work, plan.staged(folder)) is None or not _has_room(folder):
        remove(folder)
        return
    with os.scandir(folder) as entries:
        beside = [entry for entry in entries if entry.path != work]
    for entry in beside:
        is_folder = entry.is_dir(follow_symlinks=False)
        _remove_tree(entry.path) if is_folder else os.unlink(entry.path)
    os.utime(folder)  # its age counts from here


def _has_room(folder: str) -> bool:
    disk = os.statvfs(folder)
    return disk.f_bavail >= disk.f_blocks * ROOM_PART


def remove(folder: str) -> None:
    """Remove what the worker made for a task, whatever the job left in it. Links are not
    followed. The supervisor keeps its own files beside it."""
    if not remove_empty(folder):
        _remove_tree(folder)


def remove_empty(folder: str) -> bool:
    """The same where nothing was left in the output folder and beside it; False: something was."""
    return _drop_empty(folder) or (_drop_empty(plan.outputs(folder)) and _drop_empty(folder))


def is_empty(folder: str) -> bool:
    """Whether it is gone, or a folder with nothing in it."""
    try:
        return stat.S_ISDIR(os.lstat(folder).st_mode) and not os.listdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _drop_empty(folder: str) -> bool:
    """Whether it was a folder with nothing in it; then it is gone."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        pass  # an earlier try
    except OSError:
        return False
    return True


def _remove_tree(path: str) -> None:
    try:
        os.rmdir(path)  # mostly it is empty
        return
    except FileNotFoundError:
        return
    except OSError:
        pass  # it is not empty
    try:
        shutil.rmtree(path)
    except OSError:
        _open_up(path)
        shutil.rmtree(path, ignore_errors=True)


def _open_up(path: str) -> None:
    """Give back to the owner the modes that a job took away, so that its folders can be read."""
    for parent, folders, _ in os.walk(path):
        for name in folders:
            inner = os.path.join(parent, name)
            if stat.S_ISDIR(os.lstat(inner).st_mode):
                os.chmod(inner, 0o700, follow_symlinks=True)
