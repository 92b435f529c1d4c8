"""The checkpoint folder of a job: made before its first attempt, put back before each later one.

Before a later one it holds what the checkpoint says and nothing else: what the attempt before wrote
after it may be half a file. In a folder of its user's that is moved aside, and stays beside it as
`.NAME.before-TASK` until the next time; in a workspace there is nothing of the kind.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gpulayer.contracts.checkpoint_files import require_files
from gpulayer.contracts.durations import bytes_text
from gpulayer.errors import GPULayerError
from gpulayer.worker.artifact_cache import ArtifactCache
from gpulayer.worker.slot import own_folder
from gpulayer.worker.steps import plan
from gpulayer.worker.steps.plan import TaskPlan

VARIABLE = "GPULAYER_CHECKPOINT_DIR"
PHASE = "checkpoint"
"""Name of the step, where something is put back."""

_GONE = frozenset({"artifact-not-found", "digest-mismatch", "corrupt"})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 20

Dispose = Callable[[str], None]
"""Of a path that is not to be in the folder any more."""


def restore(task: TaskPlan) -> None:
    """Raises what fetching raises, where none of the checkpoints can be fetched any more."""
    wish = task.spec.get("checkpoint")
    if not wish:
        return
    base = own_folder(task.assignment)
    if base and not os.path.isdir(base):
        return  # the start says so
    folder = folder_of(task.folder, base, wish)
    os.makedirs(folder, exist_ok=True)
    task.set[VARIABLE] = folder
    kept = task.assignment.checkpoints
    if base and task.assignment.rank > 0:
        return  # the first node, which begins before the others, has put it back into this folder
    if kept:
        task.watch.enters(PHASE)
    for number, one in enumerate(kept, 1):
        try:
            put_back(folder, one["files"], task.artifacts, _disposing(task, folder))
        except GPULayerError as error:
            if error.code not in _GONE or number == len(kept):
                raise
            continue
        task.notes[PHASE] = _said(one)
        return


def folder_of(task_folder: str, own: str, wish: Mapping[str, Any]) -> str:
    """Where the checkpoints of a task are. `own`: the folder of its user's that it runs in."""
    return os.path.realpath(os.path.join(own or plan.workspace(task_folder), wish["path"]))


def put_back(
    folder: str, files: Sequence[Mapping[str, Any]], artifacts: ArtifactCache, dispose: Dispose
) -> None:
    """Have the folder hold exactly these. What it has of them already stays."""
    require_files(files)
    wanted = {str(file["path"]): file for file in files}
    there = _cleared(folder, wanted, dispose)
    links = [file for file in files if "link" in file]
    for file in files:
        if "link" not in file and file["path"] not in there:
            _fetch(folder, file, artifacts)
    for file in links:
        if file["path"] not in there:
            with _parent(folder, file["path"]) as (parent, name):
                os.symlink(file["link"], name, dir_fd=parent)


def _cleared(folder: str, wanted: Mapping[str, Mapping[str, Any]], dispose: Dispose) -> set[str]:
    """Rid the folder of what is not wanted; the paths of what is, and is there."""
    there: set[str] = set()

    def clear(path: str) -> None:
        with os.scandir(os.path.join(folder, path)) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            inner = f"{path}/{entry.name}" if path else entry.name
            if entry.is_dir(follow_symlinks=False):
                clear(inner)
                if not os.listdir(entry.path):
                    os.rmdir(entry.path)
            elif inner in wanted and _is_same(entry, wanted[inner]):
                there.add(inner)
            else:
                dispose(inner)

    clear("")
    return there


def _is_same(entry: os.DirEntry[str], file: Mapping[str, Any]) -> bool:
    if "link" in file:
        return entry.is_symlink() and os.readlink(entry.path) == file["link"]
    found = entry.stat(follow_symlinks=False)
    if not entry.is_file(follow_symlinks=False) or found.st_size != file["size"]:
        return False
    if bool(found.st_mode & 0o100) != file["executable"]:
        return False
    with open(os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as held:
        if hashlib.file_digest(held, "sha256").hexdigest() != file["digest"]:
            return False
    os.utime(entry.path, ns=(file["mtime_ns"], file["mtime_ns"]), follow_symlinks=False)
    return True


def _fetch(folder: str, file: Mapping[str, Any], artifacts: ArtifactCache) -> None:
    """A copy of its own, whatever the cache could lend: the job may write in it."""
    mode = 0o755 if file["executable"] else 0o644
    with (
        _parent(folder, file["path"]) as (parent, name),
        artifacts.open(file["digest"]) as source,
        open(os.open(name, _NEW, mode, dir_fd=parent), "wb") as target,
    ):
        shutil.copyfileobj(source, target, _PIECE)
        target.flush()
        os.utime(target.fileno(), ns=(file["mtime_ns"], file["mtime_ns"]))


@contextmanager
def _parent(folder: str, path: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder that holds the last part of the path, and that part. Each is
    opened from the one above it, and no link is followed."""
    *parts, name = path.split("/")
    at = os.open(folder, _FOLDER)
    try:
        for part in parts:
            try:
                os.mkdir(part, 0o755, dir_fd=at)
            except FileExistsError:
                pass
            inner = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        yield at, name
    finally:
        os.close(at)


def _disposing(task: TaskPlan, folder: str) -> Dispose:
    if not task.in_place:
        return lambda path: os.unlink(os.path.join(folder, path))
    above, name = os.path.split(folder)
    begins = f".{name}.before-"
    aside = os.path.join(above, begins + task.assignment.task_id)

    def dispose(path: str) -> None:
        if not os.path.isdir(aside):
            for old in os.listdir(above):
                if old.startswith(begins):
                    shutil.rmtree(os.path.join(above, old), ignore_errors=True)
        target = os.path.join(aside, path)
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        shutil.move(os.path.join(folder, path), target)

    return dispose


def _said(one: Mapping[str, Any]) -> str:
    count = len(one["files"])
    of = f"attempt {one['attempt']}" if one["attempt"] else "the job before"
    return f"of {of}: {count} file{'s' * (count != 1)}, {bytes_text(one['size'])}"
