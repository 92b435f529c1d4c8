"""What a person says becomes a spec with only the fields that were said."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts.attempts import attempts_of
from gpulayer.contracts.jobspec import validate_spec
from gpulayer.errors import UsageError
from gpulayer.sdk.describe import default_name, spec_of

ANYWHERE = {"target": "remote", "fallback_targets": ["local"]}
TRUE = {"kind": "command", "command": ["true"]}


def test_nothing_said_is_nothing_set() -> None:
    assert spec_of(TRUE, {"env": {}, "labels": {}, "timeout": None}) == {
        "workload": TRUE,
        "name": "true",
    }


@pytest.mark.parametrize(
    ("options", "part", "expected"),
    [
        ({"gpus": 2}, "resources", {"gpu_count": 2, "accelerator": "gpu"}),
        ({"gpus": 0}, "resources", {"gpu_count": 0}),
        (
            {"gpus": "a100,h100:2"},
            "resources",
            {"gpu_count": 2, "gpu_models": ["a100", "h100"], "accelerator": "gpu"},
        ),
        (
            {"gpus": "24GB:2"},
            "resources",
            {"gpu_count": 2, "gpu_memory_gb": 24.0, "accelerator": "gpu"},
        ),
        ({"memory": "64G"}, "resources", {"memory_gb": 64.0}),
        ({"memory": 64}, "resources", {"memory_gb": 64}),
        ({"on": "any"}, "placement", ANYWHERE),
        ({"on": "remote"}, "placement", {"target": "remote"}),
        ({"on": "pool=a100"}, "placement", {**ANYWHERE, "worker_labels": {"pool": "a100"}}),
        ({"on": "lab-a100"}, "placement", {**ANYWHERE, "worker_ids": ["lab-a100"]}),
        ({"timeout": "2h"}, "timeout_seconds", 7200.0),
        ({"retries": 2}, "retry", {"max_attempts": 3, "retry_on": ["worker_lost", "failed"]}),
        ({"secrets": ["A"]}, "secrets", [{"name": "A", "source": "env", "key": "A"}]),
        ({"secrets": ["A=B"]}, "secrets", [{"name": "A", "source": "env", "key": "B"}]),
    ],
)
def test_a_word_sets_its_field(options: dict[str, Any], part: str, expected: Any) -> None:
    spec = spec_of(TRUE, options)
    assert spec[part] == expected
    validate_spec(spec)


def test_here_is_the_default_and_sets_nothing() -> None:
    assert "placement" not in spec_of(TRUE, {"on": "here"})


def test_an_unknown_word_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="'gpu' is not an option") as caught:
        spec_of(TRUE, {"gpu": 1})
    assert caught.value.why == "did you mean 'gpus'?"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "--lr", "1"], "train"),
        (["python3.12", "-u", "src/train.py"], "train"),
        (["./hello"], "hello"),
        (["python", "-c", "print()"], "python"),
        (["sh", "-c", "echo"], "sh"),
        (["日本"], None),
    ],
)
def test_a_job_is_named_after_its_program(command: list[str], name: str | None) -> None:
    assert default_name({"kind": "command", "command": command}) == name


def test_a_distributed_job_starts_again_as_a_whole() -> None:
    launched = {"kind": "distributed", "entrypoint": "train.py"}
    spec = spec_of(launched, {"retries": 2, "retry_on": ("failed",)})
    assert spec["resume"] == {"max_restarts": 2, "on": ["failed"]}
    assert "retry" not in spec
    assert attempts_of(spec) == (3, ("failed",))
    assert attempts_of({"retry": {"max_attempts": 2}}) == (2, ("worker_lost",))
    assert attempts_of({"resume": {}}) == (2, ("worker_lost", "preempted", "failed"))
    assert attempts_of({}) == (1, ("worker_lost",))
