"""Specs with defaults, so that a test says only what it is about."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts import validate_spec
from gpulayer.errors import Problem, SpecError

ARTIFACT = "artifact://sha256/" + "ab" * 32


def command(**fields: Any) -> dict[str, Any]:
    return {"workload": {"kind": "command", "command": ["python", "train.py"]}, **fields}


def function(entrypoint: Any = "m:f", **fields: Any) -> dict[str, Any]:
    return {"workload": {"kind": "function", "entrypoint": entrypoint, **fields}}


def distributed(work: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    base = {"kind": "distributed", "entrypoint": "train.py", "source": ARTIFACT}
    return {"workload": {**base, **(work or {})}, **fields}


def resources(**fields: Any) -> dict[str, Any]:
    return command(resources=fields)


def refusal(data: Any) -> SpecError:
    with pytest.raises(SpecError) as caught:
        validate_spec(data)
    return caught.value


def only_problem(data: Any) -> Problem:
    refused = refusal(data)
    assert len(refused.problems) == 1, refused.problems
    return refused.problems[0]
