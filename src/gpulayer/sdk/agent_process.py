"""The agent of the local plane: a worker in a process of its own.

Started as `gpulayer.sdk.agent_process` with the arguments of `Places.argv`; with `--variables`
after them, descriptor 3 holds those that `serve --secret` allows. It keeps no state: it may be
killed at any moment, and the next one finds everything at the plane and the supervisor.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

from gpulayer.api.worker_channel import HttpChannel
from gpulayer.clock import SystemClock, SystemIds
from gpulayer.sdk import local
from gpulayer.sdk.declared import Declared, environment_in
from gpulayer.sdk.places import Places
from gpulayer.sdk.siblings import start_supervisor
from gpulayer.worker.channel import WorkerChannel
from gpulayer.worker.process import Outside, Worker


def main() -> None:
    places = Places.from_argv(sys.argv[1:5])
    declared = Declared(places.state)
    complaints = Complaints()
    outside = Outside(
        lock=os.path.join(places.state, "agent.lock"),
        tasks=places.tasks,
        supervisor_socket=places.supervisor_socket,
        start_supervisor=lambda: start_supervisor(places),
        start_plane=lambda: local.start(places),
        on_error=complaints,
        data=declared.data(),
        secrets=declared.secrets,
        environ={**os.environ, **(environment_in(3) if "--variables" in sys.argv[5:] else {})},
    )
    work(HttpChannel.over(places.plane_socket), outside)


def work(channel: WorkerChannel, outside: Outside) -> NoReturn:
    """Be a worker until it leaves, another one has the lock, or its folder was deleted."""
    try:
        worker = Worker(channel, outside, SystemClock(), SystemIds())
        if worker.start():
            worker.stay()
    except FileNotFoundError:
        pass  # the folder was deleted
    os._exit(0)  # calls that are still parked hold nothing worth waiting for


class Complaints:
    """Writes an error down, not again while the same one repeats. Raises nothing: on a full disk
    the complaint is lost, and the thread that complains is not."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        if text != self._last:
            self._last = text
            with suppress(OSError):
                sys.stderr.write(text)
                sys.stderr.flush()
