"""Log segments by offset: `FOLDER/<job>/<task>.seg`, files that only grow at their end.

The length of a file is the one number that says how much is here, so nothing else can disagree
with it after a crash. Nothing is synced: the worker keeps its bytes until the task is recorded.
All logs of a job go at once, by renaming their folder to `<job>~`, which no job is called.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from threading import Lock

from gpulayer.contracts.ids import JobId, TaskId
from gpulayer.errors import StorageError

_LOCKS = 64
_GOING = "~"


class LogFolder:
    """All methods may be called from any thread. Makes the folders of jobs, never its own."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(folder)
        self._locks = [Lock() for _ in range(_LOCKS)]

    def append(self, job_id: JobId, task_id: TaskId, offset: int, data: bytes) -> int:
        """Write the part of `data` that is not here yet, and answer the size there is now.

        Bytes before the end are dropped; a gap before `offset` writes nothing. Raises
        StorageError; then some of it may be written, and sending it again goes on from there.
        """
        if not data:
            return self.size(job_id, task_id)
        path = self._path(job_id, task_id)
        with self._locks[hash(task_id) % _LOCKS], _storage_errors(path):
            file = self._open(path)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)  # against another plane that shares the folder
                size = os.fstat(file).st_size
                if offset > size:
                    return size
                rest = memoryview(data)[size - offset :]
                while rest:
                    written = os.write(file, rest)
                    rest, size = rest[written:], size + written
                return size
            finally:
                os.close(file)

    def size(self, job_id: JobId, task_id: TaskId) -> int:
        """Bytes that are here; 0 for a silent task, which has no file."""
        path = self._path(job_id, task_id)
        with _storage_errors(path):
            try:
                return os.stat(path).st_size
            except FileNotFoundError:
                return 0

    def read(self, job_id: JobId, task_ids: Sequence[TaskId], offset: int, limit: int) -> bytes:
        """Up to `limit` bytes from `offset` on of the tasks' segments, as if they were one file."""
        parts: list[bytes] = []
        for task_id in task_ids:
            if limit <= 0:
                break
            path = self._path(job_id, task_id)
            with _storage_errors(path):
                try:
                    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
                try:
                    size = os.fstat(file).st_size
                    part = os.pread(file, limit, offset) if offset < size else b""
                finally:
                    os.close(file)
            parts.append(part)
            limit -= len(part)
            offset = max(0, offset - size)
        return b"".join(parts)

    def delete(self, job_id: JobId) -> int:
        """Remove all logs of a job; how many bytes they had. Twice-safe, and whole or not at all
        for who reads them: a crash in the middle leaves what `sweep` removes."""
        folder = self._job_folder(job_id)
        going = folder + _GOING
        with _storage_errors(folder):
            try:
                size = _bytes_in(folder)
                shutil.rmtree(going, ignore_errors=True)
                os.rename(folder, going)
            except FileNotFoundError:
                return 0
            shutil.rmtree(going)
        return size

    def sizes(self) -> dict[JobId, int]:
        """Bytes of the logs of each job that has any here."""
        found: dict[JobId, int] = {}
        for name in self._names():
            if not name.endswith(_GOING):
                with contextlib.suppress(FileNotFoundError):  # it goes in this moment
                    found[JobId(name)] = _bytes_in(os.path.join(self._folder, name))
        return found

    def sweep(self) -> None:
        """Remove what a `delete` that was killed left."""
        for name in self._names():
            if name.endswith(_GOING):
                shutil.rmtree(os.path.join(self._folder, name), ignore_errors=True)

    def _names(self) -> list[str]:
        with _storage_errors(self._folder):
            try:
                return sorted(os.listdir(self._folder))
            except FileNotFoundError:
                return []

    def _open(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), 0o700)
            return os.open(path, flags, 0o600)

    def _path(self, job_id: JobId, task_id: TaskId) -> str:
        return os.path.join(self._job_folder(job_id), f"{task_id}.seg")

    def _job_folder(self, job_id: JobId) -> str:
        return os.path.join(self._folder, job_id)


def _bytes_in(folder: str) -> int:
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)


@contextlib.contextmanager
def _storage_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        slug = "disk-full" if full else "read-only" if error.errno == errno.EROFS else "disk-error"
        raise StorageError(
            slug,
            f"the log could not be kept: {error.strerror}",
            where=path,
            hint="gpulayer gc --dry-run" if full else "gpulayer doctor",
        ) from error
