"""The journal of tasks: what a new supervisor must know about what an old one began.

One JSON object a line. `{"intent": TASK}` is written before anything of the task exists,
`{"forget": id}` after all of it is gone. How a task ended stands in its own birth file, which is
made just before the first fork: an intent without a birth file never ran.
"""

from __future__ import annotations

import fcntl
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMPACT_BYTES = 1 << 20

LISTED = ("task_id", "fence", "job_id", "index", "note")
"""What is kept of a task and told in a list. `note` is the agent's own, for a later agent."""


class Journal:
    """`tasks` holds every intent that was not forgotten, oldest first."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.tasks = read(path)
        self._fd = -1
        self._size = 0
        self._compact()

    def intent(self, task: dict[str, Any]) -> None:
        self.tasks[task["task_id"]] = task
        self._append({"intent": task})

    def forget(self, task_id: str) -> None:
        if self.tasks.pop(task_id, None) is not None:
            self._append({"forget": task_id})

    def close(self) -> None:
        os.close(self._fd)

    def _append(self, line: dict[str, Any]) -> None:
        data = _line(line)
        if os.write(self._fd, data) != len(data):
            raise OSError(f"the journal {self._path} could not be written")
        self._size += len(data)
        if self._size > COMPACT_BYTES:
            self._compact()

    def _compact(self) -> None:
        draft = self._path + ".new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(draft, flags, 0o600)
        data = b"".join(_line({"intent": task}) for task in self.tasks.values())
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(data)
        os.rename(draft, self._path)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
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
        if "intent" in entry:
            tasks[entry["intent"]["task_id"]] = entry["intent"]
        else:
            tasks.pop(entry.get("forget"), None)
    return tasks


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
        text = os.pread(self._fd, 1 << 16, 0)
        if not text.endswith(b"\n"):
            return None
        record: dict[str, Any] = json.loads(text)
        return record

    def record(self, ending: dict[str, Any]) -> None:
        """Writes how it ended, whole or not at all to a reader."""
        os.pwrite(self._fd, _line(ending), 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
