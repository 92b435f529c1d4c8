"""Commands brought into a running task: in its world, in its box, and ended with it.

A visit is forked by whoever holds the task's body (the supervisor, or the task's keeper), so that
nothing of it can outlive the task. Its environment, folder and limits are those that the task's own
program was given; its streams are descriptors that the visitor brings. What happens is reported as

    {"event": "visit", "visit", "what": "started", "pid", "cwd"}
    {"event": "visit", "visit", "what": "ended", "exit_code", "signal", "code", "message"}

with "task_over": whether the task's own program has ended.

What a visit leaves running when its own command has ended stays the task's, and ends with it. A
visitor who leaves before has its command hung up, and killed after `HANG_UP_SECONDS`.
"""

from __future__ import annotations

import os
import signal

from gpulayer.runtime import cgroup, exits, processes, spawn
from gpulayer.runtime.loop import READ

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpulayer.runtime.loop import Loop
    from gpulayer.runtime.processes import Children

HANG_UP_SECONDS = 2.0
AGAIN_SECONDS = (2.0, 10.0)
"""An engine whose client was killed may still begin its command, so it is looked for once more."""


class Visit:
    __slots__ = ("leaf", "mark", "name", "news", "pid", "refused")

    def __init__(self, name: str, leaf: cgroup.Leaf | None, mark: bytes = b"") -> None:
        self.name = name
        self.mark = mark
        self.leaf = leaf
        self.pid = self.news = -1
        self.refused: spawn.SpawnError | None = None


class Visits:
    """Of one task, whose program was started by `launch` in `leaf`. Without a leaf the process
    that runs this must be a subreaper that has no other task."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        launch: spawn.Launch,
        leaf: cgroup.Leaf | None,
        report: Callable[[dict[str, Any]], object],
    ) -> None:
        self._loop = loop
        self._children = children
        self._launch = launch
        self._leaf = leaf
        self._report = report
        self._count = 0
        self._open: dict[str, Visit] = {}

    def begin(self, request: dict[str, Any], fds: list[int]) -> None:
        """`request`: visit (its name), argv or null for the user's shell, set (variables), terminal
        (whether `fds` is one terminal, else standard input, output and error), mark (an entry of
        the environment of what it has outside of the task's processes: see `container_visit`).
        OSError and SpawnError where it cannot be. `fds` stay the caller's."""
        launch = _launch(self._launch, request, fds)
        self._count += 1
        leaf = None
        if self._leaf is not None:
            leaf = cgroup.Leaf(os.path.join(self._leaf.path, f"visit-{self._count}"))
        visit = Visit(str(request["visit"]), leaf, os.fsencode(request.get("mark") or ""))
        try:
            visit.pid, visit.news = spawn.spawn(launch, leaf)
        except OSError:
            if leaf is not None:
                leaf.close()
            raise
        self._open[visit.name] = visit
        self._loop.watch(visit.news, READ, lambda: self._hear(visit))
        self._children.watch(visit.pid, lambda status, _: self._waited(visit, status))

    def signal(self, name: str, signum: int) -> None:
        visit = self._open.get(name)
        if visit is not None:
            _send(visit.pid, signum)

    def leave(self, name: str) -> None:
        """Its visitor is gone. Twice-safe."""
        visit = self._open.get(name)
        if visit is not None:
            _send(visit.pid, signal.SIGHUP)
            _send(visit.pid, signal.SIGCONT)
            self._loop.after(HANG_UP_SECONDS, lambda: self._kill(visit))

    def living(self) -> int:
        """Processes of visits that have not ended: nothing that the task itself left behind."""
        return sum(len(v.leaf.pids()) if v.leaf else len(_tree(v.pid)) for v in self._open.values())

    def _hear(self, visit: Visit) -> None:
        """What the child says before it becomes the command: nothing, or why it can't."""
        if visit.news < 0:
            return
        try:
            said = os.read(visit.news, 1 << 16)
        except BlockingIOError:
            return
        self._loop.unwatch(visit.news)
        os.close(visit.news)
        visit.news = -1
        visit.refused = spawn.failure(said)
        if visit.refused is None:
            cwd = os.fsdecode(self._launch.cwd)
            self._tell(visit, {"what": "started", "pid": visit.pid, "cwd": cwd})

    def _waited(self, visit: Visit, status: int) -> None:
        if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
            return
        self._hear(visit)  # it may still wait in the pipe
        del self._open[visit.name]
        if visit.leaf is not None:
            visit.leaf.close()
        if visit.mark and (os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == exits.OURS_CODE):
            processes.end_marked(visit.mark)  # nobody vouched for it
            for seconds in AGAIN_SECONDS:
                self._loop.after(seconds, lambda: processes.end_marked(visit.mark))
        self._tell(visit, {"what": "ended", **ending(status, visit.refused)})

    def _kill(self, visit: Visit) -> None:
        if visit.name not in self._open:
            return
        if visit.leaf is not None:
            visit.leaf.kill()
            return
        for pid in _tree(visit.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _tell(self, visit: Visit, what: dict[str, Any]) -> None:
        self._report({"event": "visit", "visit": visit.name, **what})


def ending(status: int, refused: spawn.SpawnError | None) -> dict[str, Any]:
    """How a visit ended, for its visitor; `exit_code` follows the shell's convention."""
    if refused is not None:
        code = exits.REFUSALS.get(refused.code, exits.REFUSALS["spawn-failed"])[1]
        return {"exit_code": code, "signal": None, "code": refused.code, "message": str(refused)}
    signum = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = 128 + signum if signum is not None else os.WEXITSTATUS(status)
    return {"exit_code": code, "signal": signum, "code": "", "message": ""}


def _launch(task: spawn.Launch, request: dict[str, Any], fds: list[int]) -> spawn.Launch:
    """The task's own, with another command, and the visitor's streams."""
    setting = {os.fsencode(k): os.fsencode(v) for k, v in (request.get("set") or {}).items()}
    environ = [entry for entry in task.environ if entry.partition(b"=")[0] not in setting]
    environ += [name + b"=" + value for name, value in setting.items()]
    words = request.get("argv")
    argv = [os.fsencode(word) for word in words] if words else [_shell(environ)]
    if any(b"\0" in word for word in (*argv, *environ)):
        raise spawn.SpawnError("spawn-failed", "a command with a zero byte in it")
    made = spawn.Launch(argv, environ, task.cwd, {})
    for name in ("cwd_id", "umask", "rlimits", "nice", "affinity"):
        setattr(made, name, getattr(task, name))
    if request.get("terminal"):
        made.leads = made.stdin = made.stdout = made.stderr = fds[0]
    else:
        made.stdin, made.stdout, made.stderr = fds
    return made


def _shell(environ: list[bytes]) -> bytes:
    """The one that the task's environment names, if it is there."""
    for entry in environ:
        if entry.startswith(b"SHELL=") and os.access(entry[6:], os.X_OK):
            return entry[6:]
    return spawn.SHELL


def _tree(pid: int) -> list[int]:
    """The command, what is below it, and what left it for its parent but stayed in its session."""
    found = [pid, *processes.descendants(pid)]
    for other in processes.descendants(os.getpid(), but=frozenset((pid,))):
        try:
            if os.getsid(other) == pid:
                found.append(other)
        except ProcessLookupError:
            pass
    return found


def _send(pid: int, signum: int) -> None:
    for send in (os.killpg, os.kill):  # between fork and setsid there is no such group yet
        try:
            send(pid, signum)
            return
        except (ProcessLookupError, PermissionError):
            continue
