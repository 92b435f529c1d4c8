"""One job on a fleet from a file."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.errors import SpecError
from gpulayer.simulate.fleet import read_fleet
from gpulayer.simulate.preview import preview

FLEET = read_fleet(
    "workers: [{count: 2, gpus: 4, gpu_memory_gb: 40, python: 3.11.2, frameworks: {torch: 2.5.1}}]",
    "f.yaml",
)


def asked(**resources: Any) -> dict[str, Any]:
    wanted = {"accelerator": "gpu", **resources}
    spec = {"workload": {"kind": "command", "command": ["true"]}, "resources": wanted}
    return preview(spec, FLEET, 1_000.0)


def test_a_job_that_says_nothing_of_where_may_run_anywhere() -> None:
    plan = asked(gpu_count=4, frameworks={"torch": ">=2.2"}, python=">=3.11")
    assert plan["outcome"] == "placed"
    assert plan["placements"][0]["worker_id"] == "machine-0-0"
    assert plan["outlook"] is None


def test_what_does_not_fit_is_told_with_what_would() -> None:
    plan = asked(gpu_count=8)
    assert (plan["outcome"], plan["outlook"]["start"]["at"]) == ("waiting", None)
    assert [one["text"] for one in plan["outlook"]["suggestions"]] == [
        "--gpus 4",
        "one more worker with 8 free GPUs, 1 free core",
    ]


def test_a_wrong_spec_is_refused_as_it_would_be_by_a_plane() -> None:
    with pytest.raises(SpecError):
        asked(gpu_count=-1)
