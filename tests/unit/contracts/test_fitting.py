"""The door for what others send: what fits a field, and what is said of what does not."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.contracts.capabilities import WorkerCapabilities
from gpulayer.contracts.fitting import fitted
from gpulayer.contracts.messages import Report
from gpulayer.errors import UsageError


@pytest.mark.parametrize(
    ("kind", "good", "wrong"),
    [
        ("str", "a", 1),
        ("int", 2**63 - 1, 2**63),
        ("int", -1, True),
        ("float", 1, float("nan")),
        ("float", -0.5, 1e308),
        ("float | None", None, float("inf")),
        ("bool", False, 0),
        ("Mapping[str, str]", {"a": "b"}, {"a": 1}),
        ("tuple[str, ...] | None", ["a"], "a"),
        ("tuple[int, ...]", (1,), [1.5]),
    ],
)
def test_a_value_fits_its_field_or_is_refused_by_name(kind: str, good: Any, wrong: Any) -> None:
    assert fitted("a thing", {"x": good, "y": wrong}, {"x": kind})["x"] == good
    with pytest.raises(UsageError, match="a thing: x is not what it should be"):
        fitted("a thing", {"x": wrong}, {"x": kind})


def test_a_message_lacks_nothing_and_may_say_more() -> None:
    said = {"worker_id": "w", "incarnation": 1, "seq": 2, "of a newer version": []}
    assert Report.from_json(said).seq == 2
    with pytest.raises(UsageError, match="Report: seq is missing"):
        Report.from_json({"worker_id": "w", "incarnation": 1})
    with pytest.raises(UsageError, match="Report: inventory"):
        Report.from_json({**said, "inventory": [1]})


def test_a_machine_of_another_form_is_refused() -> None:
    facts = {"hostname": "h", "os": "linux", "cpu_arch": "x86_64", "cpu_cores": 1e308}
    with pytest.raises(UsageError, match="WorkerCapabilities: cpu_cores"):
        WorkerCapabilities.from_json(facts)  # each look at where jobs fit would fail with it
    with pytest.raises(UsageError, match="GpuDevice: uuid is missing"):
        WorkerCapabilities.from_json(
            {"hostname": "h", "os": "linux", "cpu_arch": "x86_64", "cpu_cores": 2, "gpus": [{}]}
        )
