"""How far a pull has come, from what the engine has printed. Pure."""

from __future__ import annotations

import re

_DOCKER_LAYER = re.compile(r"(?m)^([0-9a-f]{12}): (?:Pulling fs layer|Already exists)")
_DOCKER_DONE = re.compile(r"(?m)^([0-9a-f]{12}): (?:Pull complete|Already exists)")
_PODMAN_LAYER = re.compile(r"Copying blob (?:sha256:)?([0-9a-f]{12,64})")
_PODMAN_LAST = re.compile(r"Copying config|Writing manifest")


def of(output: str) -> str:
    """`2 of 5 layers`, or nothing as long as it is not known."""
    layers = set(_DOCKER_LAYER.findall(output))
    if layers:
        return f"{len(set(_DOCKER_DONE.findall(output)))} of {len(layers)} layers"
    layers = set(_PODMAN_LAYER.findall(output))
    if not layers:
        return ""
    count = f"{len(layers)} layer" + ("" if len(layers) == 1 else "s")
    return f"{count}, unpacking" if _PODMAN_LAST.search(output) else count
