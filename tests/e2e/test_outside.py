"""What a task has outside of its processes is ended before the task is over, whoever dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpulayer.runtime.sweep import sweep
from tests.support.supervisor import SupervisorHome, alive, mark

pytestmark = pytest.mark.e2e

MARK = mark("67.25")


@pytest.fixture(params=["cgroup", "keeper"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with SupervisorHome(tmp_path, containment=request.param) as home:
        yield home


def outside(home: SupervisorHome, script: str) -> dict[str, Any]:
    return {"argv": ["/bin/sh", "-c", script], "environ": {"PATH": "/usr/bin:/bin"}}


def begun(home: SupervisorHome, agent: Any, script: str, ender: str) -> str:
    """A task that runs, with what ends the rest of it."""
    envelope_id = agent.call("envelope", envelope=home.envelope(), keep=True)["envelope_id"]
    task = home.task(
        "sh", "-c", script, envelope_id=envelope_id, outside=outside(home, ender)
    )  # fmt: skip
    agent.call("start", task=task)
    return str(task["task_id"])


def test_it_is_ended_before_the_end_is_told(home: SupervisorHome) -> None:
    agent = home.connect("agent")
    gone = home.folder / "gone"
    task = begun(home, agent, f"echo up; exec sleep {MARK}", f"sleep 0.2; touch {gone}")
    agent.call("cancel", task_id=task, mode="kill", grace_seconds=0)
    ended = home.follow(agent, task)
    assert gone.exists()
    assert ended.exit["outcome"] == "cancelled"


def test_a_process_that_ends_by_itself_has_vouched_for_it(home: SupervisorHome) -> None:
    agent = home.connect("agent")
    called = home.folder / "called"
    for code, is_asked in ((0, False), (3, False), (137, False), (125, True)):
        task = begun(home, agent, f"exit {code}", f"touch {called}")
        assert home.follow(agent, task).exit["exit_code"] == code
        assert called.exists() is is_asked


def test_an_engine_that_fails_is_asked_again_and_then_the_log_says_so(home: SupervisorHome) -> None:
    agent = home.connect("agent")
    tries = home.folder / "tries"
    ender = f"echo try >> {tries}; exit 1"
    task = begun(home, agent, f"echo up; exec sleep {MARK}", ender)
    agent.call("cancel", task_id=task, mode="kill", grace_seconds=0)
    ended = home.follow(agent, task)
    assert tries.read_text() == "try\n" * 4
    assert b"could not be looked for" in ended.notes.encode()


def test_a_new_supervisor_ends_it_for_a_task_of_the_old_one(home: SupervisorHome) -> None:
    agent = home.connect("agent")
    gone = home.folder / "gone"
    task = begun(home, agent, f"echo up; exec sleep {MARK}", f"touch {gone}")
    home.kill()
    home.start()
    again = home.connect("agent")
    ended = home.follow(again, task)
    assert ended.exit["reason"] == "supervisor_lost"
    assert gone.exists()
    assert alive(MARK) == []


def test_a_sweep_without_a_supervisor_ends_it(home: SupervisorHome) -> None:
    agent = home.connect("agent")
    gone = home.folder / "gone"
    begun(home, agent, f"echo up; exec sleep {MARK}", f"touch {gone}")
    home.kill()
    sweep(str(home.home))
    assert gone.exists()
    home.start()
