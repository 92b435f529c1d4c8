"""The roster: every task that this supervisor knows, from its journal entry to its forgetting.

Begins tasks (journal, birth file, leaf, fork, in this order, so that a crash between any two is
told apart later), takes over those of an earlier supervisor, and ends the strays of a keeper that
died: they become children of this process, which is a subreaper.
"""

from __future__ import annotations

import os

from gpulayer.runtime import cgroup, crash, launches, processes
from gpulayer.runtime.exits import refused
from gpulayer.runtime.journal import LISTED, Journal
from gpulayer.runtime.past import PastTask, remove_files, remove_strange
from gpulayer.runtime.processes import Children
from gpulayer.runtime.quick import Quick
from gpulayer.runtime.spawn import FULL, SpawnError
from gpulayer.runtime.tasks import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpulayer.runtime.attaches import Attach
    from gpulayer.runtime.loop import Loop
    from gpulayer.runtime.zygote_keys import Bounds
    from gpulayer.runtime.zygotes import Zygotes


class Roster:
    """`leaves` is the folder for cgroup leaves, or None where keepers do the work."""

    def __init__(
        self,
        loop: Loop,
        journal: Journal,
        folder: str,
        label: str,
        leaves: str | None,
        clock: Callable[[], float],
        changed: Callable[[], object],
        zygotes: Bounds,
    ) -> None:
        self._loop = loop
        self._journal = journal
        self._folder = folder
        self._label = label
        """Fences count in each home for themselves; with the home's label a mark is unique."""
        self._leaves = leaves
        self._clock = clock
        self._changed = changed
        self._tasks: dict[str, Task | PastTask] = {}
        self.running: dict[str, Task | PastTask] = {}
        self._orphans: list[Task] = []
        self.quick = Quick(cgroup.open_own_list(leaves) if leaves else -1)
        self.children = Children(others=self._end_strays)
        self._bounds = zygotes
        self.zygotes: Zygotes | None = None
        """Loaded with the first task that may be forked."""

    @property
    def containment(self) -> str:
        """What holds a task's processes here: "cgroup" or "keeper"."""
        return "cgroup" if self._leaves else "keeper"

    def take_over(self) -> None:
        """The tasks of an earlier supervisor. Those that never ran are forgotten: whoever wanted
        them finds them missing and starts them again."""
        if self._leaves is not None:
            cgroup.end_leaves(self._leaves)
        remove_strange(self._folder, self._journal.tasks)
        for task_id, intent in list(self._journal.tasks.items()):
            stem = self._stem_of(task_id)
            if PastTask.ever_ran(stem):
                past = PastTask(self._loop, intent, stem, self._clock, self._ended, self.children)
                self._tasks[task_id] = self.running[task_id] = past
                past.look()
            else:
                remove_files(stem)
                self._journal.forget(task_id)

    def get(self, task_id: str) -> Task | PastTask | None:
        return self._tasks.get(task_id)

    def describe(self) -> list[dict[str, Any]]:
        return [task.describe() for task in self._tasks.values()]

    def begin(
        self, request: dict[str, Any], envelope: dict[str, Any], attach: Attach | None
    ) -> Task:
        """Forks the task. SpawnError where that can't be; then it was never here."""
        request = {**request, "home": self._label}
        task_id = request["task_id"]
        stem = self._stem_of(task_id)
        leaf_path = os.path.join(self._leaves, task_id) if self._leaves else None
        intent = {
            **{key: request.get(key) for key in LISTED},
            "leaf": leaf_path,
            "marker": f"{launches.MARKER}={launches.marker(request)}",
        }
        if "outside" in request:
            intent["outside"] = request["outside"]
        try:
            self._journal.intent(intent)
        except OSError as error:
            raise _not_begun(error) from error
        crash.point("supervisor-intent")
        task = None
        try:
            task = Task(
                self._loop,
                self.children,
                self.quick,
                request,
                stem,
                self._clock,
                self._ended,
                self._orphans.append,
            )
            if "warm" in request and self._leaves is not None:
                task.zygotes = self._zygotes_now(self._leaves)
            task.begin(envelope, attach, leaf_path)
        except Exception as error:
            if task is not None:
                task.forget()
            remove_files(stem)
            self._journal.forget(task_id)
            if not isinstance(error, OSError):
                raise
            raise _not_begun(error) from error
        self._tasks[task_id] = self.running[task_id] = task
        return task

    def forget(self, task_id: str) -> bool:
        """False where it still runs."""
        task = self._tasks.get(task_id)
        if task is None:
            return True
        if task.is_running:
            return False
        del self._tasks[task_id]
        task.forget()
        self._journal.forget(task_id)
        return True

    def close(self) -> None:
        if self.zygotes is not None:
            self.zygotes.close()
        self.quick.close()
        if self._leaves is not None:
            cgroup.end_leaves(self._leaves)  # what a template has forked may be dying still
            cgroup.remove(self._leaves)

    def _stem_of(self, task_id: str) -> str:
        return os.path.join(self._folder, task_id)

    def _zygotes_now(self, leaves: str) -> Zygotes:
        if self.zygotes is None:
            from gpulayer.runtime.zygotes import Zygotes

            given = self._loop, self.children, leaves, self.quick.mounts, self._bounds
            self.zygotes = Zygotes(*given)
        return self.zygotes

    def _ended(self, task: Task | PastTask) -> None:
        self.running.pop(task.task_id, None)
        if task.refusal is not None:
            self.forget(task.task_id)
        self._changed()

    def _end_strays(self) -> None:
        """After each round of deaths: whether a keeper was among them, and what it left."""
        if not self._orphans:
            return
        known = frozenset(self.children.watched()) | frozenset(self._in_leaves())
        left = processes.kill_descendants(os.getpid(), but=known)
        for task in [task for task in self._orphans if task.look() and not left]:
            self._orphans.remove(task)
            task.lose("the keeper of the job died")

    def _in_leaves(self) -> list[int]:
        return cgroup.pids_below(self._leaves) if self._leaves else []


def _not_begun(error: OSError) -> SpawnError:
    if error.errno in FULL:
        return SpawnError("disk-full", "the disk is full, so the job did not begin", error.errno)
    text = f"the job could not be started: {error}"
    return SpawnError("spawn-failed", text, error.errno or 0)


def refusal(error: SpawnError, now: float) -> dict[str, Any]:
    """The error object of a task that could not begin."""
    return {
        "code": error.code,
        "message": str(error),
        "errno": error.errno,
        "exit": refused(error.code, str(error), now),
    }
