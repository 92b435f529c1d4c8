"""What a job is run again with exactly, and what refuses that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import pytest

from gpulayer.errors import NotFoundError, RefusedError
from gpulayer.sdk.exact import exact_spec, pinned

WORLD = {
    "python": {"path": "/nowhere/python", "version": "3.11.2", "packages": {"numpy": "1.26.4"}},
    "environment": {"packages": {"einops": "0.8.0", "pip": "25.0"}},
}


class Plane:
    """One that has lost some artifacts, and every document of a world."""

    def __init__(self, *lost: str) -> None:
        self.lost = lost

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return {"missing": [digest for digest in (body or {})["digests"] if digest in self.lost]}

    def request(self, *words: Any, sink: BinaryIO | None = None, **how: Any) -> Any:
        raise NotFoundError("artifact-not-found", "gone")


def a_job(source: str = "a" * 64, **origin: Any) -> dict[str, Any]:
    work = {"kind": "command", "command": ["true"], "source": f"artifact://sha256/{source}"}
    spec = {"workload": work, "inputs": [{"artifact": f"artifact://sha256/{'b' * 64}"}]}
    return {"id": "a-1", "spec": spec, "origin": origin, "world": "c" * 64}


def test_requirements_become_the_versions_that_were_resolved() -> None:
    spec = {"workload": {"kind": "command"}, "environment": {"requirements": ["einops>=0.7"]}}
    made = pinned(spec, WORLD)
    assert made["environment"] == {"requirements": ["einops==0.8.0"]}
    assert spec["environment"] == {"requirements": ["einops>=0.7"]}
    assert "resources" not in made
    assert pinned(spec, WORLD, with_python=True)["resources"] == {"python": "==3.11.2"}


@pytest.mark.parametrize("environment", [None, {"file": "uv.lock"}, {"preload": ["torch"]}])
def test_what_is_exact_already_stays_as_it_was(environment: dict[str, Any] | None) -> None:
    spec = {"workload": {"kind": "command"}, "environment": environment, "image": "x@sha256:1"}
    assert pinned(spec, WORLD, with_python=True) == spec


def test_all_that_has_gone_is_named_at_once() -> None:
    with pytest.raises(RefusedError) as refused:
        exact_spec(Plane("a" * 64, "b" * 64), a_job(), is_here=False)
    assert refused.value.code == "not-exact"
    assert refused.value.why.splitlines() == [
        f"its source is not kept any more: artifact {'a' * 64}",
        f"an input of it is not kept any more: artifact {'b' * 64}",
        "what it ran in is not kept any more",
    ]
    assert refused.value.help == ("gpulayer retry a-1",)
