"""Drawn traces of jobs, replayed on virtual time: how long jobs wait under the production rules
beside EASY backfill and first come, first served. Waits are facts of the rules and the same on each
machine; the replay itself is CPU time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from benchmarks.figures import Figure
from gpulayer.simulate import engine, report
from gpulayer.simulate.fleet import read_fleet
from gpulayer.simulate.production import Production
from gpulayer.simulate.reference import Reference
from gpulayer.simulate.trace import TraceJob

SEEDS, JOBS, MACHINES = 5, 1000, 16
LOAD = 0.85
"""Share of all GPU time that the jobs ask for."""


def figures(environ: dict[str, str]) -> Iterator[Figure]:
    fleet = read_fleet(f"workers: [{{count: {MACHINES}, gpus: 8}}]", "fleet")
    means, lasts, spent = list[float](), list[float](), 0.0
    for seed in range(SEEDS):
        jobs, _ = engine.sized(_drawn(seed), fleet)
        begun = time.process_time()
        ours = engine.replay(jobs, Production(fleet, "first_fit"))
        spent += time.process_time() - begun
        easy = engine.replay(jobs, Reference(fleet, backfills=True))
        fifo = engine.replay(jobs, Reference(fleet, backfills=False))
        told = [report.figures(jobs, run, 8 * MACHINES)["classes"] for run in (ours, easy, fifo)]
        assert not told[0]["all"]["never_began"]
        means.append(told[1]["all"]["mean"] / max(1.0, told[0]["all"]["mean"]))
        lasts.append(told[2]["8+"]["p99"] / max(1.0, told[0]["8+"]["p99"]))
    yield Figure("mean wait of EASY to ours, the worst trace", min(means), "x", SEEDS, budget=1)
    yield Figure("p99 wait of 8 GPUs and more, FIFO to ours", min(lasts), "x", SEEDS, budget=1)
    each = spent / (SEEDS * JOBS)
    yield Figure("10,000 jobs replayed, CPU", each * 10_000, "s", SEEDS * JOBS, budget=20)


def _drawn(seed: int) -> list[TraceJob]:
    """Most jobs are small and short; a few are long, or want whole machines."""
    draw = random.Random(seed)
    sizes = draw.choices((1, 2, 4, 8, 16, 32), (60, 12, 12, 10, 4, 2), k=JOBS)
    lengths = [min(86_400.0, 30.0 + draw.lognormvariate(6.5, 1.8)) for _ in sizes]
    work = sum(size * length for size, length in zip(sizes, lengths, strict=True))
    every = work / (LOAD * 8 * MACHINES * JOBS)
    at, found = 0.0, list[TraceJob]()
    for n, (size, length) in enumerate(zip(sizes, lengths, strict=True)):
        at += draw.expovariate(1 / every)
        found.append(TraceJob(str(n), at, length, size, length))
    return found
