"""The smallest changes of a job with which it would run: each is placed before it is said.

What may change are numbers and places that the job asks for: less or fewer of something, elsewhere,
for a shorter time. What it cannot do without (frameworks, data, secrets, an image) stays.
Every kind of change is an `Axis` of steps from the smallest to none at all; each step lets in all
that the one before let in. So a change that is needed is found by halving, and a set of them is
minimal: with any one of them taken back by one step the scheduler's answer is no.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpulayer.contracts.decision import Shape, WorkerView

Spec = Mapping[str, Any]
Fields = Mapping[str, Any]
"""New values by their place in the spec, `resources.gpu_count`."""
_HERE: tuple[str, ...] = ("local",)
_SHORTEST = 60.0
"""Seconds: nobody is told to promise less."""


class Axis(NamedTuple):
    """One thing that may change."""

    name: str
    steps: tuple[Fields, ...]


class Change(NamedTuple):
    """A set of changes that is enough, and all of which are needed."""

    fields: Fields
    axes: tuple[str, ...]


def axes(spec: Spec, shape: Shape, views: Sequence[WorkerView], spare: float | None) -> list[Axis]:
    """Everything that could be asked for less of. `spare`: seconds until a reservation begins."""
    found = [
        Axis("gpus", tuple(_gpus(spec, shape))),
        Axis("gpu_models", ({"resources.gpu_models": []},) if shape.gpu_models else ()),
        Axis("gpu_memory", tuple(_gpu_memory(shape, views))),
        Axis("cpus", _less("resources.cpu_cores", shape.cpu_cores, _cores(views))),
        Axis("memory", _less("resources.memory_gb", shape.memory_gb, _memory(views))),
        Axis(
            "disk",
            _less("resources.disk_gb", shape.disk_gb, (v.capabilities.disk_gb for v in views)),
        ),
        Axis("nodes", tuple({"workload.num_workers": n} for n in range(shape.nodes - 1, 0, -1))),
        Axis("strategy", ({"placement.strategy": "first_fit"},) if shape.distinct else ()),
        Axis("on", tuple(_anywhere(shape))),
        Axis("timeout", tuple(_sooner(shape, spare))),
    ]
    return [axis for axis in found if axis.steps]


def smallest(known: Sequence[Axis], fits: Callable[[Fields], bool]) -> list[Change]:
    """Sets of changes that fit, each of them minimal, fewer changes first. Empty: not even all of
    them together are enough."""
    loose = {axis.name: len(axis.steps) for axis in known}

    def holds(point: Mapping[str, int]) -> bool:
        return fits(_fields(known, point))

    if not known or not holds(loose):
        return []
    found: dict[tuple[tuple[str, int], ...], Change] = {}
    for last in known:
        point = dict(loose)
        for axis in [*(a for a in known if a is not last), last]:
            point[axis.name] = _least(point[axis.name], lambda n: holds({**point, axis.name: n}))  # noqa: B023
        used = tuple((a.name, point[a.name]) for a in known if point[a.name])
        found[used] = Change(_fields(known, point), tuple(name for name, _ in used))
    return sorted(found.values(), key=lambda change: len(change.axes))


def applied(spec: Spec, fields: Fields) -> dict[str, Any]:
    """The spec with these values."""
    changed: dict[str, Any] = copy.deepcopy(dict(spec))
    for path, value in fields.items():
        *parents, name = path.split(".")
        there = changed
        for parent in parents:
            if not there.get(parent):
                there[parent] = {}
            there = there[parent]
        there[name] = value
    return changed


def words(spec: Spec, change: Change) -> str:
    """The flags that say it: `--gpus a100:2 --memory 40`."""
    after = applied(spec, change.fields)
    resources = after.get("resources") or {}
    told = []
    if {"gpus", "gpu_models"} & set(change.axes):
        models = ",".join(resources.get("gpu_models") or ())
        told.append(f"--gpus {models}{':' if models else ''}{resources.get('gpu_count') or 1}")
    for axis, flag, field in (
        ("gpu_memory", "--gpu-memory", "gpu_memory_gb"),
        ("cpus", "--cpus", "cpu_cores"),
        ("memory", "--memory", "memory_gb"),
        ("disk", "--disk", "disk_gb"),
    ):
        if axis in change.axes:
            value = resources.get(field)
            told.append(f"no {flag}" if value is None else f"{flag} {value:g}")
    for axis, said in (
        ("nodes", f"--nodes {(after.get('workload') or {}).get('num_workers')}"),
        ("strategy", "--strategy first_fit"),
        ("on", "--on any"),
        ("timeout", f"--timeout {after.get('timeout_seconds') or 0:g}"),
    ):
        if axis in change.axes:
            told.append(said)
    return " ".join(told)


def _least(most: int, fits: Callable[[int], bool]) -> int:
    """The first of 0 to `most` that fits; `most` does, and so does all behind the first."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _fields(known: Iterable[Axis], point: Mapping[str, int]) -> Fields:
    chosen = (axis.steps[point[axis.name] - 1] for axis in known if point[axis.name])
    return {path: value for step in chosen for path, value in step.items()}


def _gpus(spec: Spec, shape: Shape) -> Iterator[Fields]:
    """A process that each GPU was for goes with it."""
    processes = (spec.get("workload") or {}).get("procs_per_worker") or 0
    for count in range(shape.gpus - 1, 0, -1):
        also = {"workload.procs_per_worker": count} if processes > count else {}
        yield {"resources.gpu_count": count, **also}


def _gpu_memory(shape: Shape, views: Iterable[WorkerView]) -> Iterator[Fields]:
    if shape.gpu_memory_gb is None:
        return
    sizes = {g.memory_gb for v in views for g in v.capabilities.gpus or () if g.memory_gb}
    for size in sorted((s for s in sizes if s < shape.gpu_memory_gb), reverse=True):
        yield {"resources.gpu_memory_gb": size}
    yield {"resources.gpu_memory_gb": None}


def _less(path: str, need: float | None, have: Iterable[float | None]) -> tuple[Fields, ...]:
    """What some machine has, in tenths, so that it can be read; at least a tenth."""
    if need is None:
        return ()
    amounts = {math.floor(round(amount * 10, 4)) / 10 for amount in have if amount is not None}
    return tuple({path: a} for a in sorted(amounts, reverse=True) if 0.1 <= a < need)


def _cores(views: Iterable[WorkerView]) -> Iterator[float]:
    for view in views:
        yield view.capabilities.cpu_cores
        yield view.capabilities.cpu_cores - sum(a.cpu_cores for a in view.allocations)


def _memory(views: Iterable[WorkerView]) -> Iterator[float | None]:
    for view in views:
        total = view.capabilities.memory_gb
        yield total
        if total is not None:
            yield total - sum(a.memory_gb for a in view.allocations)


def _anywhere(shape: Shape) -> Iterator[Fields]:
    """What `--on any` says, where the job may be sent at all."""
    if shape.targets == _HERE or not (shape.worker_ids or shape.labels):
        return
    yield {
        "placement.target": "remote",
        "placement.fallback_targets": ["local"],
        "placement.worker_ids": [],
        "placement.worker_labels": {},
    }


def _sooner(shape: Shape, spare: float | None) -> Iterator[Fields]:
    """A promise to be gone before a reservation begins, in two digits, as shapes have it."""
    if spare is None or spare < _SHORTEST or (shape.limit is not None and shape.limit <= spare):
        return
    unit = 10 ** (math.floor(math.log10(spare)) - 1)
    yield {"timeout_seconds": float(math.floor(spare / unit) * unit)}
