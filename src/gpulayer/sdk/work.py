"""What a program gives to be run: a list of words, a workload, or a whole spec."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from gpulayer.errors import UsageError
from gpulayer.sdk.describe import spec_of
from gpulayer.sdk.requirements import with_header
from gpulayer.sdk.values import with_written


def spec_for(work: Sequence[str] | Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of that work with those options. UsageError where it is none."""
    if isinstance(work, Mapping):
        if "workload" in work:
            return {**work, "workload": with_written(work["workload"])}
        return _described(with_written(work), options)
    if isinstance(work, str):
        raise UsageError(
            "usage",
            "a command is a list of words, not one string",
            why="no shell splits it",
            hint=(f"gl.submit({work.split()!r})", f"gl.submit({['sh', '-c', work]!r})"),
        )
    return _described({"kind": "command", "command": [os.fspath(word) for word in work]}, options)


def _described(workload: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return spec_of(workload, with_header(workload, options))
