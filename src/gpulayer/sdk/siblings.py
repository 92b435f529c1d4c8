"""Starting the processes of the local plane. Siblings: whoever starts one is not its parent.

Each is harmless to start twice: of several only the one that gets the lock stays. What `begin_`
answers is called later, when there is time to wait for the process to have left the family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpulayer._version import __version__
from gpulayer.runtime import daemon
from gpulayer.sdk.places import Places

if TYPE_CHECKING:
    from gpulayer.runtime.frames import Connection

Started = Callable[[], object]

ANSWER_SECONDS = 10.0
"""Longest silence of a supervisor that is not stopped."""


def start_plane(places: Places, told: int, *flags: str) -> None:
    """A candidate. It writes one line into `told` when it serves or cannot (`sdk.local`)."""
    _begin("gpulayer.sdk.plane_process", "plane", places, [*places.argv(), *flags], told)()


def start_agent(places: Places, *variables: int) -> None:
    begin_agent(places, *variables)()


def begin_agent(places: Places, *variables: int) -> Started:
    """`variables`: at most one descriptor, of what `agent_process` is to have in its environment
    besides a daemon's."""
    argv = [*places.argv(), *(["--variables"] if variables else [])]
    return _begin("gpulayer.sdk.agent_process", "agent", places, argv, *variables)


def start_supervisor(places: Places, owner: int | None = None) -> None:
    """`owner`: the read end of a pipe; at its end the supervisor ends its tasks and leaves."""
    begin_supervisor(places, owner)()


def begin_supervisor(places: Places, owner: int | None = None) -> Started:
    argv = ["--home", places.state, "--runtime", places.runtime]
    fds = []
    if owner is not None:
        argv += ["--owner-fd", "3"]  # where the first descriptor arrives
        fds = [owner]
    return _begin("gpulayer.runtime.supervisor", "supervisor", places, argv, *fds, site=False)


@contextmanager
def greeted(
    places: Places, answer_seconds: float = ANSWER_SECONDS
) -> Iterator[tuple[Connection, dict[str, Any]]]:
    """The supervisor of this home as it is, and its answer to a greeting; nobody is waited for and
    nothing started. OSError and EOFError where it is not there, TimeoutError where it is silent."""
    from gpulayer.runtime import frames

    with frames.connect(places.supervisor_socket, timeout=answer_seconds) as supervisor:
        yield supervisor, supervisor.greet("client", __version__, timeout=answer_seconds)


def dismiss(places: Places) -> None:
    """End the agent, which keeps no state, and the supervisor if it has no task. For a plane that
    cannot start: nobody else would."""
    from gpulayer.runtime import frames
    from gpulayer.sdk import processes

    processes.end(places, "agent")
    try:
        with greeted(places) as (supervisor, _):
            supervisor.call("quit")
    except (OSError, EOFError, frames.Refused):
        pass  # it has work, or is not there


def _begin(
    module: str, kind: str, places: Places, argv: list[str], *fds: int, site: bool = True
) -> Started:
    return daemon.begin(module, argv, log=places.process_log(kind), fds=fds, site=site)
