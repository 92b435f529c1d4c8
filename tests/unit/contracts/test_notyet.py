"""What this version does not act on is refused by name, and only when it says something."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts import not_yet, validate_spec
from tests.unit.contracts.specs import ARTIFACT, command, distributed, function

SHELL = {"kind": "command", "command": ["sh", "-c", "python t.py"]}


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ({**command(environment={"preload": ["a"]}), "workload": SHELL}, ["environment.preload"]),
        (command(array={"items": ARTIFACT}), ["array.items as an artifact"]),
        (command(array={"count": 1}, checkpoint={"path": "a"}), ["checkpoint of an array"]),
        ({**distributed(), "array": {"count": 1}}, ["array of a distributed job"]),
        ({**distributed(), "cache": True}, ["cache of a distributed job"]),
        ({**function(), "reuse": True}, ["reuse"]),
        (command(placement={"provisioning": {"release": "keep"}}), ["placement.provisioning"]),
        (command(placement={"max_hourly_cost": 1}), ["placement.max_hourly_cost"]),
    ],
)
def test_a_field_without_effect_is_named(data: Any, fields: list[str]) -> None:
    problems = not_yet(validate_spec(data))
    assert [problem.field for problem in problems] == fields
    assert {problem.slug for problem in problems} == {"not-yet"}


@pytest.mark.parametrize(
    "data",
    [
        command(),
        command(inputs=[], after=[], outputs=[], data=[], cache=False, reuse=False, image=None),
        command(environment={"requirements": ["a"], "file": "a.txt", "timeout_seconds": 5}),
        command(environment={"preload": ["a"]}),
        command(environment={}, array=None, placement={"provisioning": {}, "currency": "EUR"}),
        command(secrets=[{"name": "A"}, {"name": "B", "source": "file", "key": "/run/b"}]),
        command(secrets=[{"name": "A", "source": "command", "key": "hf"}]),
        command(resources={"accelerator": "gpu", "gpu_models": ["a100"]}, priority=5),
        function(args=[1], source=ARTIFACT),
        command(inputs=[{"artifact": ARTIFACT, "path": "a"}], outputs=["*.pt"]),
        command(data=["imagenet"]),
        command(cache=True),
        command(after=[{"job": "a"}]),
        command(array={"count": 3, "first": 1, "step": 2, "max_parallel": 1, "max_failures": 0}),
        command(array={"matrix": {"a": [1, 2]}}),
        command(checkpoint={"path": "a"}),
        distributed(),
        {**distributed(), "workload": {**distributed()["workload"], "launcher": "direct"}},
    ],
)
def test_what_says_nothing_is_let_through(data: Any) -> None:
    assert not_yet(validate_spec(data)) == []
