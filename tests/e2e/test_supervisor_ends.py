"""How a supervisor ends a task: asked to, by the clock, by a lease, and whatever it leaves."""

from __future__ import annotations

import signal
import time

import pytest

from gpulayer.runtime import frames
from tests.support.supervisor import SupervisorHome, alive, mark

pytestmark = pytest.mark.e2e


MARK = mark("61.25")


@pytest.fixture(params=["cgroup", "keeper"])
def home(request, tmp_path):
    with SupervisorHome(tmp_path, containment=request.param) as home:
        yield home


@pytest.fixture
def agent(home):
    return home.connect("agent")


LADDERS = {
    "int": (60.0, "trap 'echo got INT; exit 7' INT", b"got INT\n", 7, 7),
    "term": (3.0, "trap 'echo got TERM; exit 8' TERM; trap '' INT", b"got TERM\n", 8, 8),
    "kill": (0.1, "trap '' INT TERM", b"", None, 137),
}


@pytest.mark.parametrize("answers", LADDERS)
def test_a_cancel_climbs_from_interrupt_to_kill(home, agent, answers):
    grace, trap, said, code, exit_code = LADDERS[answers]
    script = f"{trap}; echo ready; while :; do sleep 0.02; done"
    envelope_id = agent.call("envelope", envelope=home.envelope(), keep=False)["envelope_id"]
    task = home.task("bash", "-c", script, envelope_id=envelope_id)
    agent.call("start", task=task)
    agent.call("tail", task_id=task["task_id"], offset=0, max_bytes=10)
    agent.recv()
    for _ in range(2):
        agent.call("cancel", task_id=task["task_id"], mode="int", grace_seconds=grace)
    ended = home.follow(agent, task["task_id"])
    assert ended.exit["outcome"] == "cancelled"
    assert ended.said(1) == b"ready\n" + said
    assert (ended.exit["code"], ended.exit["exit_code"]) == (code, exit_code)
    agent.call("cancel", task_id=task["task_id"], mode="int", grace_seconds=0.1)


def test_a_cancel_at_the_instant_of_the_start_ends_the_job(home, agent):
    envelope_id = agent.call("envelope", envelope=home.envelope(), keep=False)["envelope_id"]
    tasks = [home.task("sleep", MARK, envelope_id=envelope_id) for _ in range(10)]
    for mode, task in zip(("int", "kill") * 5, tasks, strict=True):
        agent.send_json({"op": "start", "task": task})
        agent.send_json({"op": "cancel", "task_id": task["task_id"], "mode": mode})
    for task in tasks:
        assert home.follow(agent, task["task_id"]).exit["outcome"] == "cancelled"
    assert not alive(MARK)


def test_a_timeout_ends_the_job_and_says_so(home, agent):
    ended = home.run(agent, "sleep", "60", timeout_seconds=0.1)
    assert (ended.exit["outcome"], ended.exit["exit_code"]) == ("timed_out", 124)
    deaf = home.envelope(ignored_signals=[int(signal.SIGTERM)])
    ended = home.run(agent, "sleep", "60", envelope=deaf, timeout_seconds=0.1, grace_seconds=0.1)
    assert (ended.exit["outcome"], ended.exit["signal"]) == ("timed_out", 9)


def test_a_cancel_outranks_a_timeout(home, agent):
    envelope_id = agent.call("envelope", envelope=home.envelope(), keep=False)["envelope_id"]
    script = "trap '' TERM; trap 'echo deadline' TERM; while :; do sleep 0.02; done"
    task = home.task(
        "bash", "-c", script, envelope_id=envelope_id, timeout_seconds=1.5, grace_seconds=60
    )
    agent.call("start", task=task)
    agent.call("tail", task_id=task["task_id"], offset=0, max_bytes=100)
    agent.call("cancel", task_id=task["task_id"], mode="kill", grace_seconds=0)
    assert home.follow(agent, task["task_id"]).exit["outcome"] == "cancelled"


def test_what_a_job_leaves_behind_is_ended_and_counted(home, agent):
    ended = home.run(agent, "sh", "-c", f"sleep {MARK} & sleep {MARK} & echo done")
    assert (ended.exit["outcome"], ended.exit["leftovers"]) == ("succeeded", 2)
    assert ended.said(1) == b"done\n"
    assert "2 processes" in ended.notes
    assert not alive(MARK)


def test_what_ends_by_itself_right_after_the_job_may_finish(home, agent):
    """It has a quarter of a second, which on a busy machine may be too short now and then."""
    script = "exec > >(sleep 0.05; cat; echo end); echo middle"
    ends = [home.run(agent, "bash", "-c", script) for _ in range(5)]
    assert (b"middle\nend\n", 0) in [(e.said(1), e.exit["leftovers"]) for e in ends]


def test_a_task_whose_lease_runs_out_is_ended_though_its_agent_says_nothing(home, agent):
    """As one does that is stopped: its connection stays, and nothing comes by it."""
    leased, free = home.task("sleep", MARK), home.task("sleep", MARK)
    for task in (leased, free):
        agent.call("start", task=task)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    agent.call("lease", until={leased["task_id"]: now + 600.0})
    agent.call("lease", until={leased["task_id"]: now + 0.2, "another": now + 0.1})
    looker = home.connect()
    ended = home.follow(looker, leased["task_id"])
    assert (ended.exit["outcome"], ended.exit["reason"]) == ("cancelled", "worker_lost")
    states = {task["task_id"]: task["state"] for task in looker.call("list")["tasks"]}
    assert states[free["task_id"]] == "running"
    agent.call("lease", until={free["task_id"]: now + 0.3})
    assert home.follow(looker, free["task_id"]).exit["reason"] == "worker_lost"
    assert not alive(MARK)


def test_a_start_that_comes_after_its_time_is_refused(home, agent):
    """As one does whose agent was stopped while it prepared the task."""
    late, timely = home.task("sleep", MARK), home.task("true")
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    with pytest.raises(frames.Refused) as refused:
        agent.call("start", task=late, until=now - 1.0)
    assert refused.value.code == "lease-over"
    assert not alive(MARK)
    agent.call("start", task=timely, until=now + 600.0)
    assert home.follow(agent, timely["task_id"]).exit["exit_code"] == 0
    assert [task["task_id"] for task in agent.call("list")["tasks"]] == [timely["task_id"]]


def test_a_lease_that_is_taken_back_ends_nothing(home, agent):
    task = home.task("sleep", MARK)
    agent.call("start", task=task)
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    agent.call("lease", until={task["task_id"]: now + 3.0})
    agent.call("lease", until={})
    other = home.task("sleep", MARK)
    agent.call("start", task=other)
    agent.call("lease", until={other["task_id"]: now + 3.1})
    home.follow(agent, other["task_id"])
    (state,) = [t["state"] for t in agent.call("list")["tasks"] if t["task_id"] == task["task_id"]]
    assert state == "running"
    agent.call("cancel", task_id=task["task_id"], mode="kill", grace_seconds=0)
    home.follow(agent, task["task_id"])


def test_only_the_agent_gives_leases(home):
    with pytest.raises(frames.Refused):
        home.connect().call("lease", until={"t": 1.0})
