"""What the contract accepts and this version does not act on: refused by name, never ignored.

A row goes when its feature comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpulayer.errors import Problem

if TYPE_CHECKING:
    from gpulayer.contracts.jobspec import JobSpec


def not_yet(spec: JobSpec) -> list[Problem]:
    """A problem for each field that is set to something and has no effect yet."""
    return [
        Problem(field, "is not supported by this version yet", "leave it out", slug="not-yet")
        for field, is_set in NOT_YET.items()
        if is_set(spec)
    ]


def _is_distributed(spec: JobSpec) -> bool:
    return spec.workload.kind == "distributed"


def _is_python(spec: JobSpec) -> bool:
    """Whether something could be imported ahead of it."""
    work = spec.workload
    return work.kind == "function" or (work.kind == "command" and work.command[0] == "python")


def _says(value: Any) -> bool:
    """An object without a set field says as little as an empty list."""
    set_fields = getattr(value, "model_fields_set", None)
    return bool(value) if set_fields is None else bool(set_fields)


NOT_YET: dict[str, Callable[[JobSpec], bool]] = {
    "placement.target": lambda s: "cloud" in (s.placement.target, *s.placement.fallback_targets),
    "placement.max_hourly_cost": lambda s: _says(s.placement.max_hourly_cost),
    "placement.provisioning": lambda s: _says(s.placement.provisioning),
    "reuse": lambda s: bool(s.reuse),
    "environment.preload": lambda s: (
        bool(s.environment and s.environment.preload) and not _is_python(s)
    ),
    "cache of a distributed job": lambda s: bool(s.cache) and _is_distributed(s),
    "array of a distributed job": lambda s: s.array is not None and _is_distributed(s),
    "checkpoint of an array": lambda s: s.array is not None and s.checkpoint is not None,
    "array.items as an artifact": lambda s: s.array is not None and isinstance(s.array.items, str),
}
