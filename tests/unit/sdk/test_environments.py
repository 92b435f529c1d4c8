"""What is said of environments: who waits, what mends a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from gpulayer.cli.env_prepare import standing
from gpulayer.sdk.environments import complaint
from gpulayer.sdk.failures import failure_of
from tests.support.lines import refusal


def failed(slug: str, target: str = "local", **error: Any) -> dict[str, Any]:
    """A job whose environment could not be made."""
    spec = {"workload": {"kind": "command", "command": ["true"]}, "placement": {"target": target}}
    told = {"slug": slug, "where": "worker lab, phase environment", **error}
    reason = "disk_full" if slug == "disk-full" else "preparation"
    return {
        "id": "true-1", "state": "failed", "reason": reason, "exit_code": 126, "spec": spec,
        "message": "x", "result": {"error": told}, "origin": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("job", "mend"),
    [
        (failed("environment-failed"), "gpulayer help environment-failed"),
        (
            failed("environment-failed", details={"about": "address"}),
            "export GPULAYER_REQUIREMENT_LINES=any",
        ),
        (
            failed("environment-failed", "remote", details={"about": "address"}),
            "gpulayer help requirements",
        ),
        (failed("disk-full"), "gpulayer env rm --unused"),
    ],
)
def test_a_failed_preparation_says_where_and_what_to_type(job: dict[str, Any], mend: str) -> None:
    error = failure_of(job)
    assert error.where == "worker lab, phase environment"
    assert error.help[0] == mend
    assert [refusal(line) for line in error.help] == [""] * len(error.help)


def test_who_prepares_and_who_waits_is_one_line() -> None:
    workers = {f"j{n}": f"w{n}" for n in range(8)}
    assert standing({"j1": "w1"}, {}) == "preparing on w1"
    assert standing({"j1": "w1"}, {"j1": "needs 0.01 cores"}) == (
        "w1 waits for room: needs 0.01 cores"
    )
    said = standing(workers, {"j7": "needs 0.01 cores"})
    assert said == (
        "preparing on w0, w1, w2, w3, w4 and 2 more; w7 waits for room: needs 0.01 cores"
    )


def test_a_removal_is_wrong_only_where_a_key_was_named_and_all_have_answered() -> None:
    def answer(*unknown: str) -> dict[str, Any]:
        return {"name": "lab", "answer": {"removed": [], "kept": [], "unknown": list(unknown)}}

    away = {"name": "away", "answer": None}
    wrong = complaint([answer("k")], ["k"])
    assert wrong is not None
    assert wrong.code == "environment-not-found"
    assert complaint([answer("k"), away], ["k"]) is None, "it may be there"
    assert complaint([answer(), answer("k")], ["k"]) is None
    assert complaint([answer()], []) is None
