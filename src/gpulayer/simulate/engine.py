"""Virtual time: jobs come, a policy says which begin, they end when they have run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from gpulayer.contracts.decision import WorkerView
from gpulayer.simulate.trace import TraceJob


@dataclass(frozen=True, slots=True)
class Sized:
    """A job of a trace as this fleet can run it. `nodes` is more than 1 where no machine has all
    of its GPUs."""

    number: int
    job: TraceJob
    nodes: int
    gpus: int
    """On each node."""


class Policy(Protocol):
    """What decides. Every job is submitted once, begun once, ended once."""

    def submit(self, job: Sized) -> None: ...

    def end(self, job: Sized) -> None: ...

    def begin(self, now: float) -> Iterable[Sized]:
        """Those that begin now; they hold their room from now on."""
        ...


@dataclass(slots=True)
class Run:
    """What happened."""

    waits: dict[int, float] = field(default_factory=dict)
    """Seconds from submission to start, by number of the job."""
    ended: float = 0.0


def sized(jobs: Iterable[TraceJob], fleet: Sequence[WorkerView]) -> tuple[list[Sized], int]:
    """The jobs that an idle fleet can run, and how many it cannot."""
    has = [len(view.capabilities.gpus or ()) for view in fleet]
    ways = {gpus: _split(gpus, has) for gpus in {job.gpus for job in jobs}}
    found, never = list[Sized](), 0
    for job in jobs:
        way = ways[job.gpus]
        if way is None:
            never += 1
        else:
            found.append(Sized(len(found), job, *way))
    return found, never


def _split(gpus: int, has: Sequence[int]) -> tuple[int, int] | None:
    """The fewest equal nodes that fit."""
    for nodes in range(1, max(1, gpus) + 1):
        each, rest = divmod(gpus, nodes)
        if not rest and sum(n // each if each else 1 for n in has) >= nodes:
            return nodes, each
    return None


def replay(jobs: Sequence[Sized], policy: Policy) -> Run:
    """From the first arrival to the last end. All that happens at one instant is told first."""
    run, at = Run(), 0
    running: list[tuple[float, int]] = []
    while at < len(jobs) or running:
        arrival = jobs[at].job.at if at < len(jobs) else running[0][0]
        now = min(arrival, running[0][0]) if running else arrival
        while running and running[0][0] <= now:
            policy.end(jobs[heappop(running)[1]])
            run.ended = now
        while at < len(jobs) and jobs[at].job.at <= now:
            policy.submit(jobs[at])
            at += 1
        for begun in policy.begin(now):
            run.waits[begun.number] = now - begun.job.at
            heappush(running, (now + begun.job.seconds, begun.number))
    return run
