"""What a task has outside of its own processes: a container, which belongs to an engine.

    outside   {argv, environ}: a command that ends it, whatever state it is in, and is harmless
              where there is none

A supervisor runs it before it says that the task is over, unless the task's own process has
vouched for it: ended by itself, and not with `OURS`. A new supervisor does it for all those of an
earlier one. Whatever the command could not end is ended by its mark, where that may be read.
"""

from __future__ import annotations

import os
import signal

from gpulayer.runtime import exits, processes, spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gpulayer.runtime.loop import Loop, Timer
    from gpulayer.runtime.processes import Children

TRIES = 4
PAUSE_SECONDS = 0.5
PATIENCE_SECONDS = 20.0
"""For one try. An engine that does not answer holds up the end of its own tasks alone."""


def may_live(ending: dict[str, Any]) -> bool:
    """Whether it may outlive a task that ended so."""
    return ending["code"] is None or ending["code"] == exits.OURS_CODE


class Ender:
    """One use. `over` is called once it is gone, with nothing, or given up, with the reason."""

    def __init__(
        self,
        loop: Loop,
        children: Children,
        outside: dict[str, Any],
        marker: str,
        over: Callable[[str], object],
    ) -> None:
        self._loop = loop
        self._children = children
        self._outside = outside
        self._marker = marker
        self._over = over
        self._tries = 0
        self._deadline: Timer | None = None

    def begin(self) -> None:
        self._tries += 1
        try:
            pid = _start(self._outside)
        except OSError:
            self._failed()
            return
        self._children.watch(pid, self._ended)
        self._deadline = self._loop.after(PATIENCE_SECONDS, lambda: _kill(pid))

    def _ended(self, status: int, _: Any) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if status == 0:
            self._over("")
        else:
            self._failed()

    def _failed(self) -> None:
        if self._tries < TRIES:
            self._loop.after(PAUSE_SECONDS, self.begin)
            return
        processes.end_marked(self._marker.encode())
        self._over(f"its container could not be looked for: {' '.join(self._outside['argv'])}")


def end_now(intent: dict[str, Any]) -> None:
    """The same for a task of the journal, where no supervisor is to come. Waits."""
    import subprocess  # no supervisor has need of it

    outside = intent.get("outside")
    if outside:
        try:
            subprocess.run(
                outside["argv"],
                env=outside["environ"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            pass


def _start(outside: dict[str, Any]) -> int:
    argv: list[str] = outside["argv"]
    before = spawn.block_signals()
    try:
        pid = os.fork()
        if pid == 0:
            try:
                spawn.reset_signals([])
                os.setsid()
                null = os.open(os.devnull, os.O_RDWR)
                for target in range(3):
                    os.dup2(null, target)
                os.execve(argv[0], argv, outside["environ"])
            finally:
                os._exit(127)
    finally:
        spawn.restore_signals(before)
    return pid


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass  # it has ended
