"""Which artifacts a job's spec names. Pure, without pydantic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpulayer.contracts.ids import Digest

ADDRESS = "artifact://sha256/"
DIGEST = re.compile(r"[0-9a-f]{64}")
"""What follows it: a SHA-256, as an artifact is named."""


def digests_named(spec: Mapping[str, Any]) -> Iterator[Digest]:
    """Those that the plane must have: its source, standard input, items, and its inputs, but for
    what its worker fetches from an address."""
    workload: Mapping[str, Any] = spec.get("workload") or {}
    array: Mapping[str, Any] = spec.get("array") or {}
    named = [
        workload.get("source"),
        array.get("items"),
        spec.get("stdin"),
        *(item.get("artifact") for item in spec.get("inputs") or () if not item.get("url")),
    ]
    for address in named:
        if isinstance(address, str) and address.startswith(ADDRESS):
            yield Digest(address.removeprefix(ADDRESS))
