"""When two jobs are the same call, so that the result of the one is that of the other. Pure.

What is relevant is what the program is given: words or arguments, code, inputs, declared variables,
packages, image, devices. Where, when and for how long it may run is not, nor what it is called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_LAYOUT = 1
"""A part of every key: a call that an older version knew otherwise is not found."""
_DEVICES = ("accelerator", "gpu_count", "gpu_models", "gpu_memory_gb", "profile", "python")


def call_key(spec: Mapping[str, Any], origin: Mapping[str, Any], owner: str) -> str:
    """Equal for the same call of the same owner. `origin` has `call` for a job that runs in a
    folder of its user's: {tree, world}, digests of that folder and of its Python's packages."""
    work = {key: value for key, value in spec["workload"].items() if value not in ([], {}, None)}
    environment = spec.get("environment") or {}
    resources = spec.get("resources") or {}
    function = origin.get("function") or {}
    parts = {
        "layout": _LAYOUT,
        "owner": owner,
        "workload": work,
        "function": {key: function[key] for key in ("module", "source") if function.get(key)},
        "call": origin.get("call") or {},
        "env": spec.get("env") or {},
        "secrets": _sorted(spec.get("secrets")),
        "inputs": _sorted(spec.get("inputs")),
        "stdin": spec.get("stdin"),
        "data": _sorted(spec.get("data")),
        "outputs": _sorted(spec.get("outputs")),
        "image": spec.get("image"),
        "requirements": _sorted(environment.get("requirements")),
        "file": environment.get("file"),
        "devices": {name: resources[name] for name in _DEVICES if resources.get(name)},
    }
    if spec.get("array"):
        parts["array"] = _elements(spec["array"])
    return hashlib.sha256(_text(parts).encode()).hexdigest()


def _elements(array: Mapping[str, Any]) -> list[Any]:
    """Which there are and what each is given; not how many at one time. Names of a matrix in their
    order: it says which element is which."""
    given = ((key, array.get(key)) for key in ("count", "items", "matrix"))
    found = [[key, list(v.items()) if key == "matrix" else v] for key, v in given if v is not None]
    return [*found, array.get("first") or 0, array.get("step") or 1]


def names_its_packages(spec: Mapping[str, Any], origin: Mapping[str, Any]) -> bool:
    """Whether what is installed for the job is a part of its key: its client has looked, or the
    job asks for it by name."""
    environment = spec.get("environment") or {}
    asked = environment.get("requirements") or environment.get("file") or spec.get("image")
    return bool(asked or origin.get("call"))


def _sorted(values: Any) -> list[str]:
    return sorted(_text(value) for value in values or ())


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
