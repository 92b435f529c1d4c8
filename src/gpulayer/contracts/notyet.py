"""What the contract accepts and this version does not act on: refused by name, never ignored.

A row goes when its feature comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gpulayer.errors import Problem

if TYPE_CHECKING:
    from gpulayer.contracts.jobspec import JobSpec


def not_yet(spec: JobSpec) -> list[Problem]:
    """A problem for each field that is set to something and has no effect yet."""
    return [
        Problem(field, "is not supported by this version yet", "leave it out", slug="not-yet")
        for field in _set_too_early(spec)
    ]


def _set_too_early(spec: JobSpec) -> Iterator[str]:
    if spec.workload.kind == "distributed" and spec.workload.launcher != "torchrun":
        yield "workload.launcher"
    if "cloud" in (spec.placement.target, *spec.placement.fallback_targets):
        yield "placement.target"
    for field, value in _VALUES.items():
        if _says_something(value(spec)):
            yield field
    if spec.environment and spec.environment.preload and not _is_python(spec):
        yield "environment.preload"
    if spec.checkpoint and spec.workload.kind == "distributed":
        yield "checkpoint of a distributed job"
    if spec.cache and spec.workload.kind == "distributed":
        yield "cache of a distributed job"
    if spec.array is not None:
        if spec.cache:
            yield "cache of an array"
        if spec.workload.kind == "distributed":
            yield "array of a distributed job"
        if spec.checkpoint:
            yield "checkpoint of an array"
        if isinstance(spec.array.items, str):
            yield "array.items as an artifact"


def _is_python(spec: JobSpec) -> bool:
    """Whether something could be imported ahead of it."""
    work = spec.workload
    return work.kind == "function" or (work.kind == "command" and work.command[0] == "python")


def _says_something(value: Any) -> bool:
    """An object without a set field says as little as an empty list."""
    set_fields = getattr(value, "model_fields_set", None)
    return bool(value) if set_fields is None else bool(set_fields)


_VALUES: dict[str, Callable[[JobSpec], Any]] = {
    "placement.max_hourly_cost": lambda spec: spec.placement.max_hourly_cost,
    "placement.provisioning": lambda spec: spec.placement.provisioning,
    "after": lambda spec: spec.after,
    "resume": lambda spec: spec.resume,
    "reuse": lambda spec: spec.reuse,
}
