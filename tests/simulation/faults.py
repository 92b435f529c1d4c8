"""What goes wrong in one run. Each seed draws its own mix; some have none of a kind, because a
fault that is always there hides what only its absence shows ("swarm testing", Groce et al., 2012).
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities per message, mean seconds between crashes (0: never)."""

    drop: float = 0.0
    double: float = 0.0
    delay: float = 0.001
    """Mean seconds of one way."""
    plane_crash: float = 0.0
    at_statement: float = 0.5
    """Of the plane's crashes, the part that happens inside a transaction."""
    power_loss: float = 0.0
    """Of its other crashes, the part that takes unsynced log bytes along."""
    agent_crash: float = 0.0
    supervisor_crash: float = 0.0
    both_crash: float = 0.0
    """Agent and supervisor in the same instant."""
    cut: float = 0.0
    """A worker's link is cut for a while: both ways, or one alone."""
    suspended: float = 0.0
    """A worker's machine sleeps for a while: its clocks go on, nothing on it runs."""
    stopped: float = 0.0
    """The same for an agent alone; its supervisor and its processes go on."""
    drained: float = 0.0
    """A worker is drained, and resumed later."""
    copied: float = 0.0
    """A worker's disk is copied to another machine, which says the same name from then on."""
    revoked: float = 0.0
    """A worker is sent away for good, and another machine joins in its place."""
    wall_jump: float = 0.0
    refused_starts: float = 0.0
    through_json: bool = False
    """Every message goes through its bytes."""

    @classmethod
    def draw(cls, rng: random.Random, seed: int) -> Faults:
        """What was added later is drawn apart, from `seed`: the runs without it stay as they
        were, and what they find."""
        apart = random.Random(f"later {seed}")

        def every(*seconds: float) -> float:
            return rng.choice((0.0, *seconds))

        return cls(
            drop=rng.choice((0.0, 0.02, 0.15)),
            double=rng.choice((0.0, 0.02, 0.15)),
            delay=rng.choice((0.001, 0.05, 0.5, 3.0)),
            plane_crash=every(10.0, 30.0),
            at_statement=rng.choice((0.0, 0.5, 1.0)),
            power_loss=rng.choice((0.0, 0.3)),
            agent_crash=every(15.0, 40.0),
            supervisor_crash=every(20.0, 60.0),
            both_crash=every(40.0),
            cut=every(20.0, 60.0),
            suspended=every(30.0, 60.0),
            stopped=every(30.0, 60.0),
            drained=every(25.0),
            wall_jump=every(15.0),
            refused_starts=rng.choice((0.0, 0.05)),
            through_json=rng.random() < 0.2,
            copied=apart.choice((0.0, 60.0)),
            revoked=apart.choice((0.0, 0.0, 40.0)),
        )


NONE = Faults()
"""A healed world."""
