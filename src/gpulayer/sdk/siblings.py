"""Starting the processes of the local plane. Siblings: whoever starts one is not its parent.

Each is harmless to start twice: of several only the one that gets the lock stays.
"""

from __future__ import annotations

from gpulayer.runtime import daemon
from gpulayer.sdk.places import Places


def start_plane(places: Places, told: int, *flags: str) -> None:
    """A candidate. It writes one line into `told` when it serves or cannot (`sdk.local`)."""
    _launch("gpulayer.sdk.plane_process", "plane", places, [*places.argv(), *flags], told)


def start_agent(places: Places) -> None:
    _launch("gpulayer.sdk.agent_process", "agent", places, places.argv())


def start_supervisor(places: Places) -> None:
    argv = ["--home", places.state, "--runtime", places.runtime]
    _launch("gpulayer.runtime.supervisor", "supervisor", places, argv, site=False)


def _launch(
    module: str, kind: str, places: Places, argv: list[str], *fds: int, site: bool = True
) -> None:
    daemon.launch(module, argv, log=places.process_log(kind), fds=fds, site=site)
