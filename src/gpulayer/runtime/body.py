"""The body of one task: its processes, from the fork of the leader to proof that none is left.

    forked -> running -> leader gone -> settling -> empty

One implementation, two homes: the supervisor itself where a cgroup leaf holds the task, else (and
for every task in terminal mode) a keeper forked for it. What happens is reported as objects:

    {"event": "started", "pid", "at"}
    {"event": "refused", "code", "message", "errno"}     no program of the job ever ran
    {"event": "stopped", "signal"}, {"event": "continued"}
    {"event": "empty", "exit": EXIT}                     the last one; nothing is left alive

After the leader has ended, what it left gets `SETTLE_SECONDS` to end by itself (a `tee` that is
still writing does so at once), then it is killed and counted.
"""

from __future__ import annotations

import os
import signal
import time

from gpulayer.runtime import exits, memory, processes, spawn
from gpulayer.runtime.loop import PRIORITY, READ
from gpulayer.runtime.visits import Visits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpulayer.runtime.cgroup import Leaf
    from gpulayer.runtime.loop import Loop, Timer
    from gpulayer.runtime.processes import Children
    from gpulayer.runtime.quick import Quick

SETTLE_SECONDS = 0.25


class Body:
    """Without a `leaf` the process that runs this must be a subreaper with no other children."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        launch: spawn.Launch,
        leaf: Leaf | None,
        quick: Quick,
        report: Callable[[dict[str, Any]], object],
    ) -> None:
        self._loop = loop
        self._children = children
        self._launch = launch
        self._leaf = leaf
        self._quick = quick
        self._report = report
        self.leader = -1
        self._news = -1
        self._started_at: float | None = None
        self._refused: spawn.SpawnError | None = None
        self._status: tuple[int, dict[str, Any], float] | None = None
        self._cause: str | None = None
        self._reason: str | None = None
        self._leftovers = 0
        self._settling: Timer | None = None
        self._killing = False
        self._is_empty = False
        self._memory_kills = 0
        self._visits: Visits | None = None

    def start(self) -> None:
        """OSError where there is no room for one more process; all else is reported, later."""
        self._memory_kills = memory.kills(everywhere=self._launch.has_container)
        try:
            self.leader = self._start_at_once()
        except spawn.SpawnError as error:
            self._refused = error
            self._status = 0, {}, time.time()
            self._loop.after(0, self._finish)
            return
        if self.leader >= 0:
            self._loop.after(0, self._born)
        else:
            self.leader, self._news = spawn.spawn(self._launch, self._leaf)
            self._loop.watch(self._news, READ, self._read_news)
        self._children.watch(self.leader, self._waited)

    def _start_at_once(self) -> int:
        """A leader that runs already; -1 where it must be forked and waited for."""
        forking = self._launch.forking
        if forking is not None and (pid := forking.start(self._launch)) >= 0:
            return pid
        if self._quick.suits(self._launch, self._leaf):
            return self._quick.spawn(self._launch, self._leaf)
        return -1

    def signal(self, signum: int, target: str = "group") -> None:
        """To the leader's group, or to whatever is in the foreground of the job's terminal."""
        if self._status is not None or self.leader < 0:
            return
        group = self.leader
        if target == "foreground" and self._launch.controls >= 0:
            group = _foreground(self._launch.controls) or group
        for name in (group, self.leader):
            try:
                os.killpg(name, signum)
                return
            except ProcessLookupError:
                continue  # between fork and setsid there is no such group yet
            except PermissionError:
                return
        os.kill(self.leader, signum)

    def blame(self, cause: str, reason: str | None = None) -> None:
        """Why the task will have ended, unless it already has, or for a better reason."""
        if self._status is None and exits.RANK[cause] > exits.RANK[self._cause]:
            self._cause, self._reason = cause, reason

    def kill(self) -> None:
        """Ends everything now; `empty` follows."""
        self._killing = True
        if self._status is None and self.leader >= 0:
            os.kill(self.leader, signal.SIGKILL)
        self._sweep()

    @property
    def leader_ended(self) -> bool:
        return self._status is not None

    @property
    def started_at(self) -> float | None:
        return self._started_at

    def visit(self, request: dict[str, Any], fds: list[int]) -> None:
        """Brings a command into the running task; see `visits`. What it raises, too."""
        if self._started_at is None or self._status is not None:
            raise spawn.SpawnError("not-running", "the task does not run")
        if self._visits is None:
            self._visits = Visits(
                self._loop, self._children, self._launch, self._leaf, self._tell_of_visit
            )
        self._visits.begin(request, fds)

    def _tell_of_visit(self, event: dict[str, Any]) -> None:
        self._report({**event, "task_over": self.leader_ended})

    def signal_visit(self, name: str, signum: int) -> None:
        if self._visits is not None:
            self._visits.signal(name, signum)

    def end_visit(self, name: str) -> None:
        if self._visits is not None:
            self._visits.leave(name)

    def close_stream(self, stream: int) -> None:
        """Nothing here holds a read end."""

    def release(self) -> None:
        """The exit is on disk and all output was read: nothing more is expected."""

    def _read_news(self) -> None:
        """What the child says before it becomes the job: nothing, at its exec, or why it can't."""
        if self._news < 0:
            return
        try:
            report = os.read(self._news, 1 << 16)
        except BlockingIOError:
            return
        self._loop.unwatch(self._news)
        os.close(self._news)
        self._news = -1
        self._refused = spawn.failure(report)
        if self._refused is None:
            self._born()  # else its death follows at once, and with it the report

    def _born(self) -> None:
        if self._started_at is None:
            self._started_at = time.time()
            self._report({"event": "started", "pid": self.leader, "at": self._started_at})

    def _waited(self, status: int, rusage: Any) -> None:
        if os.WIFSTOPPED(status):
            self._report({"event": "stopped", "signal": os.WSTOPSIG(status)})
        elif os.WIFCONTINUED(status):
            self._report({"event": "continued"})
        else:
            self._read_news()  # it may still wait in the pipe
            if self._refused is None:
                self._born()
            self._status = status, exits.usage_of(rusage), time.time()
            self._settle()

    def _settle(self) -> None:
        if self.look():
            return
        if self._leaf is not None:  # the kernel knows what was read: a change since then is told
            self._loop.watch(self._leaf.events, PRIORITY, self.look)
        if not self._killing:
            self._settling = self._loop.after(SETTLE_SECONDS, self._end_what_is_left)

    def _end_what_is_left(self) -> None:
        if not self.look():
            self._killing = True
            left = self._leaf.pids() if self._leaf else processes.descendants(os.getpid())
            visiting = self._visits.living() if self._visits is not None else 0
            self._leftovers = max(0, len(left) - visiting)
            self._sweep()

    def look(self) -> bool:
        """Whether all is over; to be called whenever something of the task may have ended."""
        if self._is_empty:
            return True
        if self._status is None:
            return False
        if self._leaf.is_populated() if self._leaf else not self._children.none_left:
            if self._killing:
                self._sweep()
            return False
        self._finish()
        return True

    def _sweep(self) -> None:
        if self._leaf is not None:
            self._leaf.kill()
        else:
            processes.kill_descendants(os.getpid())

    def _finish(self) -> None:
        self._is_empty = True
        if self._settling is not None:
            self._settling.cancel()
        if self._leaf is not None:
            self._loop.unwatch(self._leaf.events)
        self._report({"event": "empty", "exit": self._exit()})

    def _exit(self) -> dict[str, Any]:
        assert self._status is not None
        status, usage, ended_at = self._status
        refused = self._refused
        if refused is not None:
            self._report(
                {
                    "event": "refused",
                    "code": refused.code,
                    "message": str(refused),
                    "errno": refused.errno,
                }
            )
            return exits.refused(refused.code, str(refused), ended_at)
        return exits.ended(
            status,
            cause=self._cause,
            reason=self._reason,
            out_of_memory=exits.is_kill(status) and self._ran_out(),
            started_at=self._started_at if self._started_at is not None else ended_at,
            ended_at=ended_at,
            usage=usage,
            leftovers=self._leftovers,
        )

    def _ran_out(self) -> bool:
        """Whether the kernel says that memory was the reason."""
        if self._leaf is not None and self._leaf.out_of_memory():
            return True
        return memory.kills(everywhere=self._launch.has_container) > self._memory_kills


def _foreground(terminal: int) -> int:
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return 0
