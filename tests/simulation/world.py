"""One run: a plane, workers, clients, faults for a while, then a whole world until all is quiet."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpulayer.control_plane.plane import ControlPlane
from gpulayer.worker.agent import Agent
from tests.simulation.drawn import (
    draw_brief_plan,
    draw_capabilities,
    draw_for_a_crowd,
    draw_for_runs,
    draw_long_plan,
    draw_plan,
    draw_short_plan,
)
from tests.simulation.engine import Engine
from tests.simulation.faults import NONE, Faults
from tests.simulation.invariants import Invariants
from tests.simulation.machine import Broken, Physics
from tests.simulation.network import Network
from tests.simulation.plane import PlaneHost
from tests.simulation.worker import Worker
from tests.simulation.workload import Clients

CHAOS_SECONDS = 90.0
QUIET_SECONDS = 900.0
"""Longest time from the healing to the end of the last job: retries wait up to minutes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a planted bug may replace."""

    plane: Callable[..., Any] = ControlPlane
    agent: Callable[..., Agent] = Agent
    faults: Callable[[Faults], Faults] = field(default=lambda drawn: drawn)
    workers: tuple[int, ...] = (1, 2, 2, 3, 4)
    """How many there may be; one is drawn."""
    saves: bool = False
    """Every second job has a checkpoint."""
    crowded: bool = False
    """Many jobs of few sizes at once, so that some are sent ahead of their room all the time."""
    arrays: bool = False
    """Two of three commands are arrays."""
    runs: bool = False
    """Most of what is submitted is an array of a function, whose elements are short."""
    chained: bool = False
    """Most jobs come after others."""
    lasting: bool = False
    """A few long jobs that may all be given out again: long enough for a lease to run out."""


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    digest: str
    events: int
    commits: int
    seconds: float
    """Virtual time."""
    broken: str | None
    trace: tuple[str, ...] = ()


def run(seed: int, parts: Parts | None = None, *, keep_trace: bool = False) -> Outcome:
    """One whole run. What does not hold is told in the outcome, with its seed."""
    scratch = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = tempfile.mkdtemp(prefix="gpulayer-sim-", dir=scratch)
    world = None
    engine = Engine(seed, keep_trace=keep_trace)
    broken = None
    try:
        world = World(engine, folder, parts or Parts())
        world.play()
    except Broken as error:
        broken = f"seed {seed}, at {engine.now:.3f} s: {error}"
    finally:
        if world is not None and world.host.store is not None:
            world.host.store.close()
        shutil.rmtree(folder)
    commits = world.host.commits if world is not None else 0
    trace = tuple(engine.lines or ())
    return Outcome(seed, engine.digest(), engine.events, commits, engine.now, broken, trace)


class World:
    def __init__(self, engine: Engine, folder: str, parts: Parts) -> None:
        self.engine = engine
        rng = engine.rng
        self._parts = parts
        self.faults = parts.faults(Faults.draw(rng, engine.seed))
        engine.note("world", repr(self.faults))
        self.physics = Physics(engine)
        self.host = PlaneHost(engine, folder, lambda: self.network.hang_up(), parts.plane)
        self.network = Network(engine, self.host)
        self.network.faults = self.faults
        plan = draw_short_plan if parts.crowded else draw_plan
        plan = draw_long_plan if parts.lasting else plan
        draw = draw_for_a_crowd if parts.crowded else draw_capabilities
        draw = draw_for_runs if parts.runs else draw
        plan = draw_brief_plan if parts.runs else plan
        seams = (engine, self.network, self.host, self.physics)
        names = [f"w{number}" for number in range(rng.choice(parts.workers))]
        self.workers = [Worker(name, *seams, parts.agent, plan, draw=draw) for name in names]
        gpus = any(len(worker.capabilities.gpus or ()) == 2 for worker in self.workers)
        nodes = min(len(names), 3)
        kinds = (parts.saves, parts.crowded, parts.arrays, parts.lasting, parts.runs, parts.chained)
        self.clients = Clients(engine, self.network, self.host, gpus, nodes, *kinds)
        self.invariants = Invariants(engine, self.host, self.clients, self.workers, self.physics)

    def play(self) -> None:
        if self._parts.crowded:
            self.clients.plan(self.engine.rng.randrange(20, 50), CHAOS_SECONDS * 0.3)
        elif self._parts.lasting:
            self.clients.plan(self.engine.rng.randrange(1, 4), CHAOS_SECONDS * 0.1)
        else:
            self.clients.plan(self.engine.rng.randrange(4, 14), CHAOS_SECONDS * 0.8)
        self._plan_faults()
        self.engine.run(CHAOS_SECONDS, after_each=self.invariants.look)
        self._heal()
        healed = self.engine.now

        def look() -> None:
            self.invariants.look()
            self.invariants.overstaying(healed)

        self.engine.run(healed + QUIET_SECONDS, after_each=look, done=self._quiet)
        self.engine.run(self.engine.now + 30.0, after_each=look)
        self.invariants.end()

    def _plan_faults(self) -> None:
        rng, faults = self.engine.rng, self.faults
        self._repeat(faults.plane_crash, self._crash_plane)
        self._repeat(faults.agent_crash, lambda: rng.choice(self.workers).crash_agent())
        self._repeat(faults.supervisor_crash, lambda: rng.choice(self.workers).crash_supervisor())
        self._repeat(faults.both_crash, self._crash_both)
        self._repeat(faults.cut, self._cut)
        self._repeat(faults.suspended, lambda: rng.choice(self.workers).suspend(self._a_while()))
        self._repeat(faults.stopped, lambda: rng.choice(self.workers).stop_agent(self._a_while()))
        self._repeat(faults.drained, self._drain)
        self._repeat(faults.wall_jump, self._jump)
        self._repeat(faults.copied, self._copy)
        self._repeat(faults.revoked, self._revoke)

    def _repeat(self, mean: float, fault: Callable[[], None]) -> None:
        if mean <= 0:
            return

        def strike() -> None:
            if self.engine.now < CHAOS_SECONDS:
                fault()
                self.engine.after(self.engine.soon(mean), strike)

        self.engine.after(self.engine.soon(mean), strike)

    def _crash_plane(self) -> None:
        if self.engine.chance(self.faults.at_statement):
            self.host.crash_in(self.engine.rng.randrange(60))
        else:
            self.host.crash(self.engine.rng.uniform(0.1, 8.0), self.faults.power_loss)

    def _crash_both(self) -> None:
        self.engine.rng.choice(self.workers).crash()

    def _cut(self) -> None:
        worker = self.engine.rng.choice(self.workers)
        until = self.engine.now + self.engine.soon(self.engine.rng.choice((3.0, 50.0)))
        way = self.engine.rng.choice(("cut", "cut", "mute", "deaf"))
        setattr(worker.link, f"{way}_until", until)
        self.engine.note(worker.name, f"is {way} until {until:.3f}")

    def _a_while(self) -> float:
        """Over by the time when all is healed."""
        seconds = self.engine.soon(self.engine.rng.choice((3.0, 40.0)))
        return min(seconds, CHAOS_SECONDS - self.engine.now)

    def _drain(self) -> None:
        name = self.engine.rng.choice(self.workers).worker_id
        self.clients.drain(name)
        self.engine.after(self.engine.soon(15.0), lambda: self.clients.drain(name, False))

    def _copy(self) -> None:
        """Of a worker's disk; its journal of tasks is not in the copy."""
        of = self.engine.rng.choice(self.workers)
        name = f"{of.worker_id}-{len(self.workers)}"
        self.engine.note(of.name, f"is copied to {name}")
        self._join(name, of, of.worker_id)

    def _revoke(self) -> None:
        of = self.engine.rng.choice([worker for worker in self.workers if not worker.is_gone])
        self.engine.note(of.name, f"{of.worker_id} is to be revoked")
        self.physics.sent_away.setdefault(of.worker_id, self.engine.now)
        self.clients.revoke(of.worker_id)
        name = f"w{len(self.workers)}"
        self._join(name, of, name)

    def _join(self, name: str, like: Worker, worker_id: str) -> None:
        parts = (self.engine, self.network, self.host, self.physics, self._parts.agent)
        made = Worker(name, *parts, like.plan, like.capabilities, worker_id)
        self.workers.append(made)

    def _jump(self) -> None:
        clock = self.engine.rng.choice([self.host.clock, *(w.clock for w in self.workers)])
        clock.jump(self.engine.rng.choice((-86_400.0, -3_600.0, -5.0, 5.0, 3_600.0, 86_400.0)))

    def _heal(self) -> None:
        self.engine.note("world", "is whole again")
        self.network.faults = NONE
        for worker in self.workers:
            worker.link.cut_until = worker.link.mute_until = worker.link.deaf_until = -1.0
            self.clients.drain(worker.worker_id, False)
        self.host.crash_in(-1)
        self.host.wanted()

    def _quiet(self) -> bool:
        store = self.host.store
        if store is None or self.clients.waiting or self.physics.alive:
            return False
        with store.read() as reader:
            return reader.unfinished() == 0
