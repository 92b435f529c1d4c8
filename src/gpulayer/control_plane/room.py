"""How much of one kind the workers run at one time."""

from __future__ import annotations

from gpulayer.contracts.decision import Decision
from gpulayer.control_plane.sessions import Sessions


def slots(sessions: Sessions, decision: Decision, cores: float) -> int:
    """Tasks of so many cores on all workers together; 0: one that the decision names does not take
    runs of elements."""
    chosen = [sessions.get(placement.worker_id) for placement in decision.placements]
    if any(session is None or not session.capabilities.takes_runs for session in chosen):
        return 0
    each = (session.capabilities.cpu_cores // max(cores, 0.01) for session in sessions.all())
    return max(1, int(sum(each)))
