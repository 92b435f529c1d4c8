"""Verdicts against a second, slower reading of the same rules.

`can` below tries the facts directly, with what is not known taken for good or for bad. A worker
that cannot run a job even with luck and all of it free is NEVER; one that can without luck and as
it stands is YES; nothing else is either.
"""

from __future__ import annotations

from hypothesis import given, settings
from packaging.specifiers import SpecifierSet

from gpulayer.contracts.capabilities import GpuDevice
from gpulayer.contracts.decision import Fit, Shape, WorkerView
from tests.support.builders import judged
from tests.support.fleets import shapes, workers

MANY = settings(max_examples=250, deadline=None)
VENDORS = {"gpu": {"nvidia", "apple"}, "cuda": {"nvidia"}, "mps": {"apple"}, "rocm": set()}


def can(shape: Shape, view: WorkerView, *, lucky: bool, free: bool) -> bool:
    """Whether the worker can run it. `lucky`: unknown facts are as wished. `free`: nothing is
    held, nobody drains or is away."""
    facts = view.capabilities
    held = () if free else view.allocations
    rented = view.target == "cloud" or facts.provider is not None
    return all(
        (
            view.target in shape.targets,
            free or not (view.draining or view.offline),
            all(facts.labels.get(key) == value for key, value in shape.labels),
            not shape.os or facts.os in shape.os,
            shape.cpu_cores <= facts.cpu_cores - sum(a.cpu_cores for a in held) + 1e-9,
            at_least(shape.memory_gb, facts.memory_gb, sum(a.memory_gb for a in held), lucky),
            at_least(shape.disk_gb, facts.disk_gb, 0.0, lucky),
            python_fits(shape, view, lucky),
            torch_fits(shape, view, lucky),
            not shape.providers
            or (facts.provider in shape.providers if facts.provider else lucky or not rented),
            shape.max_hourly_cost is None
            or (not rented if view.hourly_cost is None else view.hourly_cost <= 2.0),
            gpus_fit(shape, view, {uuid for a in held for uuid in a.gpus}, lucky, free),
        )
    )


def at_least(need: float | None, have: float | None, held: float, lucky: bool) -> bool:
    if need is None:
        return True
    return lucky if have is None else need <= have - held


def python_fits(shape: Shape, view: WorkerView, lucky: bool) -> bool:
    if shape.python is None:
        return True
    found = [i.version for i in view.capabilities.interpreters[:1] if i.version]
    return lucky if not found else found[0] in SpecifierSet(shape.python)


def torch_fits(shape: Shape, view: WorkerView, lucky: bool) -> bool:
    if not shape.frameworks:
        return True
    found = [i.frameworks for i in view.capabilities.interpreters[:1] if i.frameworks is not None]
    if not found:
        return lucky
    return "torch" in found[0] and found[0]["torch"] in SpecifierSet(shape.frameworks[0][1])


def gpus_fit(shape: Shape, view: WorkerView, held: set[str], lucky: bool, free: bool) -> bool:
    if not shape.gpus:
        return True
    if shape.accelerator == "rocm" or (shape.accelerator == "mps" and shape.gpus > 1):
        return False
    gpus = view.capabilities.gpus
    if gpus is None:
        return lucky
    usable = [g for g in gpus if gpu_fits(shape, view, g, lucky)]
    if not free:
        usable = [g for g in usable if g.uuid not in held and not g.foreign_pids]
    return len(usable) >= shape.gpus


def gpu_fits(shape: Shape, view: WorkerView, gpu: GpuDevice, lucky: bool) -> bool:
    kind = shape.gpu_memory_kind or ("dedicated" if shape.gpu_memory_gb else gpu.memory_kind)
    limited = shape.visible_gpus is not None and view.target == "local" and gpu.vendor == "nvidia"
    capable = gpu.compute_capability
    return all(
        (
            gpu.vendor in VENDORS[shape.accelerator],
            shape.gpus == 1 or gpu.mig_parent is None,
            not limited or (gpu.index < 2 and len(view.capabilities.gpus or ()) > 1),
            not shape.gpu_models or gpu.model in shape.gpu_models,
            gpu.memory_kind == kind,
            at_least(shape.gpu_memory_gb, gpu.memory_gb, 0.0, lucky),
            shape.min_compute_capability is None
            or (gpu.vendor == "nvidia" and (float(capable) >= 8.0 if capable else lucky)),
            lucky if gpu.healthy is None else gpu.healthy,
        )
    )


@MANY
@given(shapes(), workers("w0"))
def test_never_means_never(shape: Shape, view: WorkerView) -> None:
    (verdict,) = judged(shape, view)
    assert (verdict.fit is Fit.NEVER) == (not can(shape, view, lucky=True, free=True))


@MANY
@given(shapes(), workers("w0"))
def test_yes_means_now(shape: Shape, view: WorkerView) -> None:
    (verdict,) = judged(shape, view)
    assert (verdict.fit is Fit.YES) == can(shape, view, lucky=False, free=False)


@MANY
@given(shapes(), workers("w0"))
def test_a_verdict_is_the_worst_of_its_checks_and_every_failing_one_has_numbers(
    shape: Shape, view: WorkerView
) -> None:
    (verdict,) = judged(shape, view)
    ranks = [[Fit.YES, Fit.BUSY, Fit.UNKNOWN, Fit.NEVER].index(c.fit) for c in verdict.checks]
    assert ranks == sorted(ranks, reverse=True)
    assert verdict.checks[0].fit is verdict.fit
    assert all(c.need and c.have and 0 <= c.gap <= 1 for c in verdict.checks)
