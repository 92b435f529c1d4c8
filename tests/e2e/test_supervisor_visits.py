"""Commands in a running task: in its world and its box, and nothing of them outlives it."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from gpulayer.runtime import frames
from tests.support.supervisor import SupervisorHome, alive, mark

pytestmark = pytest.mark.e2e

MARK = mark("91.25")


@pytest.fixture(params=["cgroup", "keeper"])
def home(request, tmp_path):
    with SupervisorHome(tmp_path, containment=request.param) as home:
        yield home


@pytest.fixture
def agent(home):
    return home.connect("agent")


class Visit:
    """A connection that brought a command, and the other ends of its streams."""

    def __init__(self, home: SupervisorHome, task: dict[str, Any], *argv: str, **more: Any):
        self.supervisor = home.connect()
        self.stdin, theirs_in = os.pipe()[::-1]
        self.stdout, theirs_out = os.pipe()
        fds = {"stdin": theirs_in, "stdout": theirs_out, "stderr": theirs_out}
        try:
            self.supervisor.call(
                "visit", fds=fds, task_id=task["task_id"], fence=task["fence"], argv=list(argv),
                **more,
            )  # fmt: skip
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def event(self) -> dict[str, Any]:
        return dict(self.supervisor.recv()[1])

    def said(self) -> bytes:
        """All, to its end."""
        found = b""
        while data := os.read(self.stdout, 65536):
            found += data
        return found

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        self.supervisor.close()
        os.close(self.stdin)
        os.close(self.stdout)


def begun(home, agent, *argv: str, **task: Any) -> dict[str, Any]:
    wanted = home.task(*(argv or ("sleep", MARK)), **task)
    agent.call("start", task=wanted)
    return wanted


def test_a_command_sees_the_tasks_world_and_says_its_own_code(home, agent):
    task = begun(home, agent, environ={"PATH": os.environ["PATH"], "COLOUR": "blue"}, cwd="/usr")
    with Visit(home, task, "sh", "-c", "pwd; echo $COLOUR $TERM; cat; exit 7",
               set={"TERM": "vt100"}) as visit:  # fmt: skip
        assert visit.event()["event"] == "started"
        os.write(visit.stdin, b"typed\n")
        os.close(visit.stdin)
        visit.stdin = os.open(os.devnull, os.O_RDONLY)
        assert visit.said() == b"/usr\nblue vt100\ntyped\n"
        ended = visit.event()
        assert (ended["event"], ended["exit_code"], ended["signal"]) == ("ended", 7, None)


@pytest.mark.parametrize(
    ("argv", "code"), [("no-such-command", 127), ("/etc/passwd", 126)], ids=["missing", "no-x"]
)
def test_a_command_that_cannot_start_says_why(home, agent, argv, code):
    task = begun(home, agent)
    with Visit(home, task, argv) as visit:
        ended = visit.event()
        assert (ended["event"], ended["exit_code"]) == ("ended", code)
        assert argv in ended["message"]


def test_a_signal_goes_to_the_command_and_to_nothing_else(home, agent):
    task = begun(home, agent)
    with Visit(home, task, "sleep", MARK) as visit:
        assert visit.event()["event"] == "started"
        visit.supervisor.send_json({"op": "signal_visit", "signum": int(signal.SIGINT)})
        ended = visit.event()
        assert (ended["exit_code"], ended["signal"]) == (130, 2)
    assert len(alive(MARK)) == 1, "the task's own"


def test_the_end_of_the_task_is_the_end_of_its_visits(home, agent):
    task = begun(home, agent)
    stubborn = f"trap '' HUP TERM INT; echo up; (setsid sleep {MARK} &) ; while :; do sleep 1; done"
    with Visit(home, task, "sh", "-c", stubborn) as visit:
        assert visit.event()["event"] == "started"
        assert os.read(visit.stdout, 3) == b"up\n"
        agent.call("cancel", task_id=task["task_id"], mode="term", grace_seconds=5)
        assert visit.said() == b""
        kinds = [visit.event()["event"], visit.event()["event"]]
        assert sorted(kinds) == ["ended", "task-ended"]
    assert alive(MARK) == []


def test_a_visit_is_nothing_that_the_task_left_behind(home, agent):
    task = begun(home, agent, "sh", "-c", "read line; exit 0", stdin=None)
    other = begun(home, agent, "sleep", "0.3")
    with Visit(home, other, "sleep", MARK) as visit:
        visit.event()
        reply = agent.call("tail", task_id=other["task_id"], offset=0, max_bytes=1 << 20)
        while not reply["eof"]:
            if reply["bytes"]:
                agent.recv()
            reply = agent.call(
                "tail", task_id=other["task_id"], offset=reply["size"], max_bytes=1 << 20
            )
        assert reply["exit"]["leftovers"] == 0
    assert task["task_id"] != other["task_id"]


def test_a_visitor_who_leaves_has_the_command_hung_up_and_then_killed(home, agent):
    task = begun(home, agent)
    stubborn = f"trap '' HUP; echo up; sleep {MARK}; sleep {MARK}"
    with Visit(home, task, "sh", "-c", stubborn) as visit:
        assert visit.event()["event"] == "started"
        assert os.read(visit.stdout, 3) == b"up\n"
        visit.supervisor.close()
        assert visit.said() == b"", "nobody holds its output any more"
    assert len(alive(MARK)) == 1, "the task's own goes on"


def test_what_a_command_leaves_running_is_the_tasks(home, agent):
    task = begun(home, agent)
    with Visit(home, task, "sh", "-c", f"sleep {MARK} >/dev/null 2>&1 &") as visit:
        assert visit.event()["event"] == "started"
        assert visit.event()["exit_code"] == 0
    assert len(alive(MARK)) == 2
    agent.call("cancel", task_id=task["task_id"], mode="kill")
    with home.connect() as other:
        other.call("tail", task_id=task["task_id"], offset=1 << 40, max_bytes=1)
    home.stop()
    assert alive(MARK) == []


def test_a_killed_supervisor_takes_the_visits_with_it(home, agent):
    task = begun(home, agent)
    with Visit(home, task, "sh", "-c", f"trap '' HUP; echo up; sleep {MARK}") as visit:
        assert os.read(visit.stdout, 3) == b"up\n"
        home.kill()
        home.start()  # what no keeper ended, the next one does
        assert visit.said() == b""
    assert alive(MARK) == []


def test_only_a_running_task_of_that_fence_is_entered(home, agent):
    task = begun(home, agent)
    for wrong, code in (({"fence": 999}, "not-running"), ({"task_id": "t9"}, "no-such-task")):
        with pytest.raises(frames.Refused) as refused:
            Visit(home, {**task, **wrong}, "true")
        assert refused.value.code == code
    agent.call("cancel", task_id=task["task_id"], mode="kill")
    agent.call("tail", task_id=task["task_id"], offset=1 << 40, max_bytes=1)
    with pytest.raises(frames.Refused) as refused:
        Visit(home, task, "true")
    assert refused.value.code == "not-running"
