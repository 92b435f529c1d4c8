"""Which labels a worker has. On the plane's own machine those that it reports; a worker from
elsewhere has those that it was granted, whatever it claims: labels decide what is sent to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpulayer.errors import UsageError

MOST_LABELS, KEY_CHARACTERS, VALUE_CHARACTERS = 64, 63, 255


def with_granted(
    capabilities: Mapping[str, Any], target: str, granted: Mapping[str, str]
) -> dict[str, Any]:
    """The capabilities to believe."""
    if target == "local":
        return dict(capabilities)
    return {**capabilities, "labels": dict(granted)}


def checked(labels: Mapping[str, Any]) -> Mapping[str, str]:
    """Labels that may be granted. Raises `usage`."""
    if len(labels) > MOST_LABELS:
        raise UsageError("usage", f"a worker has up to {MOST_LABELS} labels")
    for key, value in labels.items():
        if not (0 < len(key) <= KEY_CHARACTERS and key.isprintable()):
            raise UsageError("usage", f"a label's name has 1 to {KEY_CHARACTERS} characters")
        if not (isinstance(value, str) and len(value) <= VALUE_CHARACTERS and value.isprintable()):
            raise UsageError("usage", f"a label's value has up to {VALUE_CHARACTERS} characters")
    return labels
