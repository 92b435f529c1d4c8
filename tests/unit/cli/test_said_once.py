"""What a line says of a job, it says once."""

from __future__ import annotations

from typing import Any

from gpulayer.cli import ps, render
from gpulayer.cli.outcome import line
from gpulayer.cli.status import facts
from gpulayer.cli.why import sentence


def job(**fields: Any) -> dict[str, Any]:
    workload = {"kind": "command", "command": ["true"]}
    return {"id": "true-00000000", "spec": {"workload": workload}, "submitted_at": 1.0, **fields}


def test_why_a_job_waits() -> None:
    queued = job(state="queued", decision_summary="waits: vm needs 2 free cores, has 0 of 2")
    assert dict(facts(queued, 2.0))["waits"] == "vm needs 2 free cores, has 0 of 2"
    assert sentence(queued) == "true-00000000 is queued: vm needs 2 free cores, has 0 of 2"


def test_when_a_job_that_waits_may_begin() -> None:
    queued = job(state="queued")
    soon: dict[str, Any] = {"at": 62.0, "is_sure": False, "because": ""}
    assert dict(facts(queued, 2.0, soon))["starts"] == f"about {render.moment(62.0)}, in 1 min"
    unknown = {**soon, "at": None, "because": "no time limit is known"}
    assert dict(facts(queued, 2.0, unknown))["starts"] == "no estimate: no time limit is known"
    assert "starts" not in dict(facts(queued, 2.0))


def test_that_a_job_was_cancelled() -> None:
    ended = job(state="cancelled", message="cancelled", exit_code=130, started_at=1, finished_at=2)
    assert dict(facts(ended, 2.0))["state"] == "cancelled, exit code 130"
    assert line(ended) == "true-00000000 cancelled in 1.0 s, exit code 130"


def test_that_a_worker_is_silent_while_its_job_may_run_on() -> None:
    away = job(state="running", message="", reason="started", worker="lab", disconnected_since=0.0)
    at = render.moment(0.0)
    assert dict(facts(away, 2.0))["state"] == f"running (lab is silent since {at}; it may run on)"
    assert sentence(away).endswith(f"is running on lab: lab is silent since {at}; it may run on")
    assert ps.row(away, 2.0)[-1] == f"lab is silent since {at}; it may run on"
