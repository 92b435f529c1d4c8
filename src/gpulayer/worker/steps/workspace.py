"""The folders of one task, readable by its user alone."""

from __future__ import annotations

import os
import shutil
import stat

from gpulayer.worker.steps import plan
from gpulayer.worker.steps.plan import TaskPlan


def make(task: TaskPlan) -> None:
    """Empty, also where an earlier try of the same task left something. A job with no terminal
    behind it runs in its workspace."""
    os.makedirs(task.folder, 0o700, exist_ok=True)
    task.undo.callback(remove, task.folder)
    for path in (
        plan.inputs(task.folder),
        plan.outputs(task.folder),
        plan.workspace(task.folder),
    ):
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            _remove_tree(path)
            os.mkdir(path, 0o700)
    if not task.here:
        task.cwd = plan.workspace(task.folder)


def remove(folder: str) -> None:
    """Remove what the worker made for a task, whatever the job left in it. Links are not
    followed. The supervisor's own files stay; the folder itself goes with the last of them.
    """
    for path in (
        plan.inputs(folder),
        plan.outputs(folder),
        plan.workspace(folder),
        plan.ranks(folder),
    ):
        _remove_tree(path)
    for path in (plan.call_file(folder), plan.result_file(folder), plan.staged_file(folder)):
        try:
            os.unlink(path)
        except OSError:
            pass  # it is not there
    try:
        os.rmdir(folder)
    except OSError:
        pass  # the supervisor still needs it, or it is gone


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
