"""Which labels a worker has. On the plane's own machine those that it reports; a worker from
elsewhere has those that it was granted, whatever it claims: labels decide what is sent to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_granted(
    capabilities: Mapping[str, Any], target: str, granted: Mapping[str, str]
) -> dict[str, Any]:
    """The capabilities to believe."""
    if target == "local":
        return dict(capabilities)
    return {**capabilities, "labels": dict(granted)}
