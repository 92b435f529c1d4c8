"""Secrets that a worker's owner lets jobs have: known to jobs and planes by a name alone.

Where each comes from (a variable, a file, a command) stands in the worker's own configuration and
stays on its machine. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpulayer.contracts import limits
from gpulayer.contracts.environ_names import name_fault
from gpulayer.errors import UsageError

ANY = "*"
"""Instead of a name: every variable of the worker's environment that a job may name. So are
workers understood that are older than the list, and looked into their environment for any name."""


def is_name(text: str) -> bool:
    return len(text) <= limits.CHOICE_CHARACTERS and name_fault(text) is None


def wanted(secret: Mapping[str, Any]) -> str:
    """What a secret of a spec is called where it comes from."""
    return str(secret.get("key") or secret["name"])


def offered(names: Iterable[str]) -> tuple[str, ...]:
    """What a worker says that it can give, in order. Raises `usage`."""
    found = tuple(sorted(set(names)))
    if len(found) > limits.CHOICES:
        raise UsageError("usage", f"a worker gives up to {limits.CHOICES} secrets")
    for name in found:
        if name != ANY and not is_name(name):
            raise UsageError("usage", f"{name[:80]!r} is not the name of a secret")
    return found
