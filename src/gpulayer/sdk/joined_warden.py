"""Keeps the agent of a machine that joined alive, and does nothing else.

It waits on two things that are news by themselves: the agent's lock, which is free when no agent
is there, and a pipe that ends with the agent that it started. One that keeps dying is started ever
more rarely. A warden that is killed takes nobody with it; `gpulayer join` starts another.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys

from gpulayer.clock import SystemClock
from gpulayer.runtime import daemon, hardening
from gpulayer.sdk.joined import Joined
from gpulayer.worker.lock import WorkerLock

TOLD, ENVIRONMENT = 3, 4
FIRST_SECONDS, LAST_SECONDS = 0.5, 60.0
SETTLED_SECONDS = 60.0
"""An agent that lived for so long is not one that keeps dying."""


def main() -> None:
    hardening.harden()
    keep(Joined.from_argv(sys.argv[1:]), TOLD, ENVIRONMENT)
    os._exit(0)


def keep(joined: Joined, told: int, environment: int) -> None:
    """Return when this machine is not to work for that server any more, or another warden sees to
    it. `told` is closed once an agent has it."""
    clock = SystemClock()
    try:
        lock = WorkerLock(joined.warden_lock)
        if not lock.take():
            return
        pause = FIRST_SECONDS
        while _until_free(joined) and joined.is_there():
            begun = clock.monotonic()
            alive = _start(joined, told, environment)
            if told >= 0:
                os.close(told)
                told = -1
            os.read(alive, 1)  # nothing is ever written: it ends with the agent
            os.close(alive)
            if not joined.is_there():
                return
            pause = FIRST_SECONDS if clock.monotonic() - begun > SETTLED_SECONDS else pause
            select.select((), (), (), pause)
            pause = min(LAST_SECONDS, pause * 2)
    except FileNotFoundError:
        pass  # the folder is gone


def _until_free(joined: Joined) -> bool:
    """Return once no agent is there; one that another warden started may be."""
    fd = os.open(joined.agent_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        return os.path.exists(joined.agent_lock)
    finally:
        os.close(fd)


def _start(joined: Joined, told: int, environment: int) -> int:
    """Start an agent; what ends with it."""
    alive, held = os.pipe2(os.O_CLOEXEC)
    nobody = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC) if told < 0 else told
    try:
        daemon.launch(
            "gpulayer.sdk.joined_process",
            joined.argv(),
            log=joined.places.process_log("agent"),
            fds=[held, nobody, environment],
        )
    finally:
        os.close(held)
        if told < 0:
            os.close(nobody)
    return alive
