"""The journal of tasks: what a new supervisor must know about what an old one began.

One JSON object a line. `{"intent": TASK}` is written before anything of the task exists,
`{"forget": id}` after all of it is gone. How a task ended stands in its own birth file, which is
made just before the first fork: an intent without a birth file never ran.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMPACT_BYTES = 1 << 20

RESERVED_BYTES = 2 << 10
"""Of a birth file: more than a record of an end needs."""

LISTED = ("task_id", "fence", "job_id", "index", "note")
"""What is kept of a task and told in a list. `note` is the agent's own, for a later agent."""


class Journal:
    """`tasks` holds every intent that was not forgotten, oldest first."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.tasks = read(path)
        self._fd = -1
        self._end = 0
        """Its length: what is behind it was never written."""
        self._size = 0
        """Bytes since it was last made short."""
        self._forgotten: list[bytes] = []
        """Lines that go out with the next intent: until then missing files say the same."""
        self._open()

    def intent(self, task: dict[str, Any]) -> None:
        """OSError where it could not be written; then the task must not begin."""
        self.tasks[task["task_id"]] = task  # before it is made short: that writes all of these
        try:
            self._append(b"".join(self._forgotten) + _line({"intent": task}))
        except OSError:
            del self.tasks[task["task_id"]]
            raise
        self._forgotten.clear()

    def forget(self, task_id: str) -> None:
        """Its files must be gone: where the line is lost, that is how the next one knows."""
        if self.tasks.pop(task_id, None) is not None:
            self._forgotten.append(_line({"forget": task_id}))

    def close(self) -> None:
        try:
            self._append(b"".join(self._forgotten))
        except OSError:
            pass  # the disk is full
        os.close(self._fd)

    def _append(self, data: bytes) -> None:
        """OSError where the disk does not take it; then nothing of it is in the file."""
        if os.write(self._fd, data) != len(data):
            os.ftruncate(self._fd, self._end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._end += len(data)
        self._size += len(data)
        if self._size > COMPACT_BYTES:
            self._size = 0
            try:
                self._compact()
            except OSError:
                pass  # the long one is as good

    def _open(self) -> None:
        """A new file with what is still needed; where the disk is too full for it, the old one."""
        try:
            self._compact()
        except OSError:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(self._path, flags, 0o600)
            self._end = os.fstat(self._fd).st_size

    def _compact(self) -> None:
        draft = self._path + ".new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(draft, flags, 0o600)
        data = b"".join(_line({"intent": task}) for task in self.tasks.values())
        try:
            with os.fdopen(os.dup(fd), "wb") as file:
                file.write(data)
            os.rename(draft, self._path)
        except OSError:
            os.close(fd)
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        self._end = len(data)
        self._size = 0


def read(path: str) -> dict[str, dict[str, Any]]:
    """The tasks of a journal, as `Journal` finds them; changes nothing."""
    tasks: dict[str, dict[str, Any]] = {}
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return tasks
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the torn last line of a killed supervisor: never acted upon
        intent = _intent_of(entry)
        if intent is not None:
            tasks[intent["task_id"]] = intent
        elif isinstance(entry, dict):
            tasks.pop(str(entry.get("forget")), None)
    return tasks


def is_name(task_id: object) -> bool:
    """Whether files may be called so: one component of a path, and nothing else."""
    if not isinstance(task_id, str) or task_id in ("", ".", ".."):
        return False
    return not any(c in task_id for c in "/\0")


def _intent_of(entry: Any) -> dict[str, Any] | None:
    """What was written here by us; anything else that a damaged disk may give is no intent."""
    intent = entry.get("intent") if isinstance(entry, dict) else None
    if isinstance(intent, dict) and is_name(intent.get("task_id")):
        return intent
    return None


class Birth:
    """The birth file of one task: that it may have run, who keeps it, and how it ended.

    Made by the supervisor just before the fork. A keeper holds its lock (flock(2)) as long as
    anything of the task lives; whoever finds it unlocked and without an exit may declare the task
    lost, and must write so before it lets the lock go.
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        return self._fd

    def lock(self) -> bool:
        """Without waiting. False where somebody else holds it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def exit(self) -> dict[str, Any] | None:
        """How the task ended; None where nobody wrote it, or not to its end."""
        line, ended, _ = os.pread(self._fd, 1 << 16, 0).partition(b"\n")
        if not ended:
            return None
        try:
            record = json.loads(line)
        except ValueError:
            return None  # not ours, or a disk that forgot
        return record if isinstance(record, dict) else None

    def reserve(self) -> None:
        """Takes the room for the record now, while a full disk only means that nothing begins."""
        room = b" " * RESERVED_BYTES
        if os.pwrite(self._fd, room, 0) != len(room):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def record(self, ending: dict[str, Any]) -> bool:
        """Writes how it ended, whole or not at all to a reader. False: the disk did not take it."""
        line = _line(ending)
        try:
            return os.pwrite(self._fd, line, 0) == len(line)
        except OSError:
            return False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
