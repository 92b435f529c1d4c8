"""From a job to its shape: what the scheduler looks at, and nothing else.

A shape leaves out what cannot matter (an interpreter, when nothing is asked of it), so that as many
jobs as possible share one. Equal shapes have equal ids.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gpulayer.contracts.data_sets import variable
from gpulayer.contracts.decision import Shape
from gpulayer.contracts.ids import ShapeId
from gpulayer.contracts.profiles import PROFILES
from gpulayer.contracts.secret_names import wanted
from gpulayer.gpu.support import normalise_model

_NONE: Mapping[str, Any] = {}


def shape_of(spec: Mapping[str, Any], origin: Mapping[str, Any]) -> Shape:
    """The shape of a validated spec (its JSON; fields that were not set may be missing) that was
    submitted from `origin`. A profile counts as what it stands for."""
    resources = spec.get("resources") or _NONE
    placement = spec.get("placement") or _NONE
    workload = spec.get("workload") or _NONE
    profile = PROFILES.get(resources.get("profile") or "")
    accelerator = resources.get("accelerator") or (profile.accelerator if profile else "cpu")
    gpus = resources.get("gpu_count") or (0 if accelerator == "cpu" else 1)
    image = bool(spec.get("image"))
    implied = profile.frameworks if profile and not image else {}
    is_gang = workload.get("kind") == "distributed"
    if is_gang and workload.get("launcher") != "direct" and not image:
        implied = {"torch": "", **implied}  # its launcher is torchrun
    frameworks = _frameworks(implied, resources.get("frameworks"))
    python = resources.get("python")
    targets = (placement.get("target") or "local", *placement.get("fallback_targets", ()))
    here = "local" in targets
    interpreter = (origin.get("interpreter") or _NONE) if here and (frameworks or python) else _NONE
    visible = origin.get("visible_gpus") if here and gpus else None
    data = _sorted(spec.get("data") or ())
    offered = set(origin.get("data") or ()) if here else set()
    secrets = _sorted(map(wanted, spec.get("secrets") or ()))
    own = here and bool(origin.get("interpreter"))  # the origin of a job that has its terminal
    if own and targets == ("local",):
        secrets = ()  # its own terminal is looked at when it begins
    nodes = (workload.get("num_workers") or 1) if is_gang else 1
    return Shape(
        accelerator=accelerator,
        gpus=gpus,
        gpu_memory_gb=_number(resources.get("gpu_memory_gb")),
        gpu_memory_kind=resources.get("gpu_memory_kind"),
        gpu_models=_sorted(normalise_model(m) for m in resources.get("gpu_models") or ()),
        min_compute_capability=resources.get("min_cuda_compute_capability"),
        cpu_cores=_number(resources.get("cpu_cores")) or 1.0,
        memory_gb=_number(resources.get("memory_gb")),
        disk_gb=_number(resources.get("disk_gb")),
        os=_sorted(resources.get("os") or ()),
        cpu_arch=_sorted(resources.get("cpu_arch") or ()),
        frameworks=frameworks,
        python=python,
        interpreter=interpreter.get("path"),
        interpreter_version=interpreter.get("version"),
        visible_gpus=None if visible is None else tuple(str(g) for g in visible),
        data=data,
        data_here=tuple(name for name in data if variable(name) in offered),
        secrets=secrets,
        secrets_here=own and bool(secrets),
        image=image,
        nodes=nodes,
        distinct=nodes > 1 and placement.get("strategy") == "spread",
        targets=tuple(dict.fromkeys(targets)),
        worker_ids=_sorted(placement.get("worker_ids") or ()),
        labels=_pairs(placement.get("worker_labels")),
        providers=_sorted(placement.get("providers") or ()),
        regions=_sorted(placement.get("regions") or ()),
        strategy=placement.get("strategy") or "spread",
        max_hourly_cost=_number(placement.get("max_hourly_cost")),
        currency=placement.get("currency") or "USD",
        limit=rounded_limit(spec.get("timeout_seconds")),
        nested=bool(origin.get("parent_job")),
    )


def rounded_limit(seconds: float | None) -> float | None:
    """Up to two digits: so jobs with nearly equal limits share a shape."""
    if seconds is None or seconds <= 0:
        return None
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return float(round(math.ceil(round(seconds / unit, 6)) * unit, 6))


@lru_cache(maxsize=8192)
def without_limit(shape: Shape) -> Shape:
    """What room it needs: shapes that differ in time alone are judged once."""
    return dataclasses.replace(shape, limit=None)


def shape_id(shape: Shape) -> ShapeId:
    """16 hex digits of the SHA-256 of the shape's canonical JSON."""
    text = canonical(shape_to_json(shape))
    return ShapeId(hashlib.sha256(text.encode()).hexdigest()[:16])


def shape_to_json(shape: Shape) -> dict[str, Any]:
    """Only the fields that differ from the defaults, in plain JSON types."""
    values: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = getattr(shape, name)
        if value != default:
            values[name] = _plain(value)
    return values


def shape_from_json(data: Mapping[str, Any]) -> Shape:
    """The opposite of `shape_to_json`. Unknown keys are ignored."""
    return Shape(**{k: _frozen(v) for k, v in data.items() if k in _DEFAULTS})


def canonical(value: Any) -> str:
    """The one JSON text of a plain value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _number(value: float | None) -> float | None:
    """`40` and `40.0` are one need."""
    return None if value is None else float(value)


def _frameworks(
    implied: Mapping[str, str], asked: Mapping[str, str] | None
) -> tuple[tuple[str, str], ...]:
    """What is asked for overrides what the profile implies. Names compare as those of
    distributions do (PEP 503), but a dot stays: `torch.cuda` is a feature of torch."""
    both = {**implied, **{re.sub("[-_]+", "-", n).lower(): s for n, s in (asked or {}).items()}}
    return _pairs(both)


def _pairs(mapping: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((mapping or {}).items()))


def _sorted(names: Any) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


_DEFAULTS = {f.name: f.default for f in dataclasses.fields(Shape)}
