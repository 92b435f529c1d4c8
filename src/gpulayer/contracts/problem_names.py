"""Which field an unknown one was meant to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

_SPOKEN = {
    "gpus": "gpu_count",
    "gpu": "gpu_count",
    "cpus": "cpu_cores",
    "cores": "cpu_cores",
    "mem": "memory_gb",
    "memory": "memory_gb",
    "gpu_memory": "gpu_memory_gb",
    "disk": "disk_gb",
    "timeout": "timeout_seconds",
    "retries": "max_attempts",
    "cmd": "command",
    "argv": "command",
    "environ": "env",
    "nodes": "num_workers",
    "procs_per_node": "procs_per_worker",
    "nproc_per_node": "procs_per_worker",
    "backend": "comm_backend",
}
"""What other tools and our own options call a field."""


def nearest(root: type[BaseModel], path: tuple[str | int, ...], data: Any) -> str | None:
    """The likeliest field: one of the same object by its name, else `section.field` elsewhere, or
    one of the whole job, which is said to be that."""
    from difflib import get_close_matches

    name = str(path[-1])
    here = fields_at(root, path[:-1], data)
    spoken = _SPOKEN.get(name.lower())
    if spoken in here:
        return spoken
    near = get_close_matches(name[:64].lower(), here, n=1, cutoff=0.7)
    if near:
        return near[0]
    elsewhere = dict(_all_fields(root, data))
    near = [spoken] if spoken in elsewhere else []
    near = near or get_close_matches(name[:64].lower(), elsewhere, n=1, cutoff=0.8)
    if not near:
        return None
    found = elsewhere[near[0]]
    return f"{found} of the job itself" if len(path) > 1 and "." not in found else found


def fields_at(root: type[BaseModel], path: tuple[str | int, ...], data: Any) -> tuple[str, ...]:
    """The fields that the object at the path can have."""
    model: type[BaseModel] | None = root
    for step in path:
        data = data.get(step) if isinstance(data, Mapping) and isinstance(step, str) else data
        if isinstance(step, str) and model is not None:
            model = _model_of(model, step, data)
    return tuple(model.model_fields) if model is not None else ()


def _model_of(model: type[BaseModel], field: str, data: Any) -> type[BaseModel] | None:
    """The model of a field; of several, the one whose kind the data names."""
    info = model.model_fields.get(field)
    models = list(_models_in(info.annotation)) if info is not None else []
    kind = data.get("kind") if isinstance(data, Mapping) else None
    for each in models:
        if "kind" in each.model_fields and each.model_fields["kind"].default == kind:
            return each
    return models[0] if models else None


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _all_fields(root: type[BaseModel], data: Any) -> Iterator[tuple[str, str]]:
    for section in reversed(root.model_fields):
        inner = data.get(section) if isinstance(data, Mapping) else None
        model = _model_of(root, section, inner)
        for field in model.model_fields if model is not None else ():
            yield field, f"{section}.{field}"
    for field in root.model_fields:
        yield field, field
