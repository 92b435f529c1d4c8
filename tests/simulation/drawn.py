"""What a run draws: what machines have, and what processes do."""

from __future__ import annotations

from dataclasses import replace

from gpulayer.contracts.capabilities import GpuDevice, Interpreter, WorkerCapabilities
from tests.simulation.engine import Engine
from tests.simulation.machine import Plan

TORCH = Interpreter("/usr/bin/python3", "3.12.7", frameworks={"torch": "2.13.0"})


def draw_plan(engine: Engine) -> Plan:
    return _drawn(engine, (0.0, 0.01, 2.0, 10.0, 60.0, 60.0))


def draw_short_plan(engine: Engine) -> Plan:
    return _drawn(engine, (0.0, 0.01, 0.1, 2.0, 20.0))


def draw_long_plan(engine: Engine) -> Plan:
    return Plan(engine.rng.uniform(60.0, 200.0), 0, (), False)


def draw_brief_plan(engine: Engine) -> Plan:
    """Of calls, most of which take milliseconds."""
    rng, plan = engine.rng, _drawn(engine, (0.0, 0.01, 0.1))
    if rng.random() < 0.3:
        return plan
    each = rng.choice((0.001, 0.003, 0.02, 0.02, 0.3, 4.0))
    bad = rng.choice((0.0, 0.0, 0.02, 0.5))
    breaks = rng.choice((None, None, None, rng.randrange(200)))
    return replace(plan, each=each, bad=bad, breaks_at=breaks)


def draw_for_runs(engine: Engine, name: str) -> WorkerCapabilities:
    capabilities = draw_for_a_crowd(engine, name)
    return replace(capabilities, takes_runs=engine.chance(0.9))


def _drawn(engine: Engine, means: tuple[float, ...]) -> Plan:
    rng = engine.rng
    seconds = engine.soon(rng.choice(means))
    prints = tuple(
        (rng.uniform(0, seconds), rng.choice((10, 10, 200, 50_000)))
        for _ in range(rng.randrange(4))
    )
    return Plan(seconds, rng.choice((0, 0, 0, 1, 3)), prints, rng.random() < 0.2)


def draw_capabilities(engine: Engine, name: str) -> WorkerCapabilities:
    gpus = tuple(
        GpuDevice(f"GPU-{name}-{n}", n, "nvidia", "NVIDIA H100", "h100", 80.0, "dedicated", "9.0")
        for n in range(engine.rng.choice((0, 2)))
    )
    cores = engine.rng.choice((1.0, 2.0, 4.0))
    return WorkerCapabilities(
        name, "linux", "x86_64", cores, 16.0, 100.0, gpus=gpus, interpreters=(TORCH,)
    )


def draw_for_a_crowd(engine: Engine, name: str) -> WorkerCapabilities:
    """Most workers can be sent tasks ahead of their room. Apart from the others, so that the runs
    without that stay as they were, and what they find."""
    return replace(draw_capabilities(engine, name), takes_ahead=engine.chance(0.8))
