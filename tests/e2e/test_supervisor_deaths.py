"""What dies, what happens: kill -9 of the supervisor and the keeper at each named instant."""

from __future__ import annotations

import os
import re
import resource
import signal

import pytest

from gpulayer.runtime import segments
from gpulayer.runtime.sweep import sweep
from tests.support.faults import delete
from tests.support.supervisor import (
    Ended,
    Screen,
    SupervisorHome,
    alive,
    eventually,
    kill_9,
    mark,
    wait_dead,
)

pytestmark = pytest.mark.e2e

MARK, OTHER = mark("64.125"), mark("66.5")
JOB = f"seq 3000; touch ran; setsid sleep {MARK} & env -i setsid sleep {MARK} & wait"
QUICK = "seq 3000; touch ran; exit 7"
SAID = b"".join(b"%d\n" % i for i in range(1, 3001))


@pytest.fixture(params=["cgroup", "keeper"])
def home(request, tmp_path):
    with SupervisorHome(tmp_path, containment=request.param) as home:
        yield home


def begin(home, agent, script, **changes):
    envelope_id = agent.call("envelope", envelope=home.envelope(), keep=True)["envelope_id"]
    task = home.task("bash", "-c", script, envelope_id=envelope_id, **changes)
    agent.send_json({"op": "start", "seq": 1000, "task": task})
    return task


def die_at(home, point, script):
    """A supervisor that dies at `point` while it runs `script`; returns the task, and a new agent
    of a new supervisor."""
    home.stop()
    marker = home.folder.parent / "crash"
    marker.touch()
    home.start(env={"GPULAYER_CRASH_AT": f"{point}={marker}"})
    agent = home.connect("agent")
    task = begin(home, agent, script)
    assert home.process.wait(60) == -signal.SIGKILL
    assert not marker.exists()
    home.process = None
    home.start()
    return task, home.connect("agent")


def has_no_silent_gap(ended):
    """What it said from the first byte on; past a note that some is missing, what it said later."""
    head, _, tail = ended.log.partition(b"is missing here")
    said = Ended("", {}, head).said(1)
    rest = ended.said(1)[len(said) :]
    return SAID.startswith(said) and (SAID.endswith(rest) if tail else not rest)


def test_the_death_of_a_supervisor_ends_nothing_of_another_home(home, tmp_path):
    """Both homes count their tasks and fences from the same number."""
    (tmp_path / "other").mkdir()
    with SupervisorHome(tmp_path / "other", containment=home.containment) as other:
        theirs = other.connect("agent")
        kept = begin(other, theirs, "touch began; while ! test -e go; do sleep 0.02; done; exit 7")
        eventually(lambda: (other.folder / "began").exists())
        mine = home.connect("agent")
        ended = begin(home, mine, "touch began; exec sleep 1000")
        assert (ended["task_id"], ended["fence"]) == (kept["task_id"], kept["fence"])
        eventually(lambda: (home.folder / "began").exists())
        home.kill()
        home.start()
        exit_of = home.follow(home.connect("agent"), ended["task_id"]).exit
        assert exit_of["outcome"] == "lost"
        (other.folder / "go").touch()
        assert other.follow(theirs, kept["task_id"]).exit["exit_code"] == 7


@pytest.mark.parametrize("point", ["supervisor-intent"])
def test_a_task_of_which_only_the_intent_was_written_never_ran(home, point):
    task, agent = die_at(home, point, QUICK)
    assert agent.call("list")["tasks"] == []
    assert not (home.folder / "ran").exists()
    agent.call("start", task=task)
    ended = home.follow(agent, task["task_id"])
    assert (ended.exit["exit_code"], ended.said(1)) == (7, SAID)


@pytest.mark.parametrize(
    "point",
    [
        "supervisor-birth",
        "supervisor-forked",
        "supervisor-started",
        "supervisor-read",
        "supervisor-written",
    ],
)
def test_a_task_that_may_have_run_is_lost_its_log_is_exact_and_nothing_survives(home, point):
    task, agent = die_at(home, point, JOB)
    ended = home.follow(agent, task["task_id"])
    assert (ended.exit["outcome"], ended.exit["exit_code"]) == ("lost", 125)
    assert has_no_silent_gap(ended)
    assert not alive(MARK)
    assert home.follow(agent, task["task_id"]).exit == ended.exit


def test_an_end_that_only_the_keeper_wrote_is_the_end(tmp_path):
    with SupervisorHome(tmp_path, containment="keeper") as home:
        task, agent = die_at(home, "supervisor-ended", QUICK)
        ended = home.follow(agent, task["task_id"])
        assert (ended.exit["outcome"], ended.exit["exit_code"]) == ("failed", 7)
        assert ended.said(1) == SAID


def test_an_end_that_nobody_wrote_is_lost(tmp_path):
    with SupervisorHome(tmp_path, containment="cgroup") as home:
        task, agent = die_at(home, "supervisor-ended", QUICK)
        ended = home.follow(agent, task["task_id"])
        assert ended.exit["outcome"] == "lost"
        assert has_no_silent_gap(ended)


def test_an_end_on_disk_is_the_end(home):
    task, agent = die_at(home, "supervisor-recorded", QUICK)
    ended = home.follow(agent, task["task_id"])
    assert (ended.exit["outcome"], ended.exit["exit_code"]) == ("failed", 7)
    assert ended.said(1) == SAID
    agent.call("forget", task_id=task["task_id"])
    assert list((home.home / "tasks").iterdir()) == []


def test_the_keeper_says_what_the_supervisor_had_not_read(tmp_path):
    """The job is ended with its supervisor, but what it had said is in the log to the last byte."""
    with SupervisorHome(tmp_path, containment="keeper") as home:
        agent = home.connect("agent")
        os.mkfifo(home.folder / "go")
        script = f"read x < go; seq 300; touch said; sleep {MARK}"
        task = begin(home, agent, script, redact=[["KEY", "not-in-there"]])
        agent.recv()
        os.kill(home.process.pid, signal.SIGSTOP)
        (home.folder / "go").write_text("x\n")
        eventually(lambda: (home.folder / "said").exists())
        home.kill()
        home.start()
        ended = home.follow(home.connect("agent"), task["task_id"])
        assert ended.exit["outcome"] == "lost"
        assert ended.said(1) == b"".join(b"%d\n" % i for i in range(1, 301))
        assert not alive(MARK)


@pytest.mark.parametrize("point", ["keeper-locked", "keeper-forked", "keeper-ended"])
def test_a_keeper_that_dies_loses_its_task_and_nothing_survives(tmp_path, point):
    with SupervisorHome(tmp_path, containment="keeper") as home:
        home.stop()
        marker = tmp_path / "crash"
        marker.touch()
        home.start(env={"GPULAYER_CRASH_AT": f"{point}={marker}"})
        agent = home.connect("agent")
        task = begin(home, agent, JOB if point != "keeper-ended" else QUICK)
        ended = home.follow(agent, task["task_id"])
        assert ended.exit["outcome"] == "lost"
        assert has_no_silent_gap(ended)
        assert not marker.exists()
        assert not alive(MARK)
        assert home.run(agent, "true").exit["outcome"] == "succeeded"


def test_a_keeper_that_dies_after_its_record_changes_nothing(tmp_path):
    with SupervisorHome(tmp_path, containment="keeper") as home:
        home.stop()
        marker = tmp_path / "crash"
        marker.touch()
        home.start(env={"GPULAYER_CRASH_AT": f"keeper-recorded={marker}"})
        agent = home.connect("agent")
        task = begin(home, agent, QUICK)
        ended = home.follow(agent, task["task_id"])
        assert not marker.exists()
        assert (ended.exit["exit_code"], ended.said(1)) == (7, SAID)


def test_a_keeper_killed_with_its_job_running_leaves_nothing_of_it_and_spares_others(home):
    agent = home.connect("agent")
    other = begin(home, agent, f"sleep {OTHER}; true")
    screen = Screen(home, streams={"0": "terminal", "1": "terminal", "2": "terminal"})
    screen = Screen(
        home, streams={"0": "terminal", "1": "terminal", "2": "terminal"}, mode="terminal"
    )
    screen.start(home, agent, "bash", "-c", f"setsid sleep {MARK} & env -i setsid sleep {MARK}")
    eventually(lambda: len(alive(MARK)) >= 3)
    kill_9(parent_of(screen.event("started")["pid"]))
    assert screen.until_exited()["outcome"] == "lost"
    assert not alive(MARK)
    assert alive(OTHER)
    agent.call("cancel", task_id=other["task_id"], mode="kill")
    home.follow(agent, other["task_id"])


def parent_of(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])


def test_supervisor_and_keeper_killed_at_once(home):
    """Without a cgroup, what has neither parent nor marker can't be known; all else is ended."""
    agent = home.connect("agent")
    screen = Screen(
        home, streams={"0": "terminal", "1": "terminal", "2": "terminal"}, mode="terminal"
    )
    script = f"setsid sleep {MARK} & (setsid sleep {MARK} &) ; sleep {MARK}"
    task_id = screen.start(home, agent, "bash", "-c", script)
    eventually(lambda: len(alive(MARK)) >= 3)
    keeper = parent_of(screen.event("started")["pid"])
    os.kill(home.process.pid, signal.SIGSTOP)
    kill_9(keeper)
    home.kill()
    home.start()
    ended = home.follow(home.connect("agent"), task_id)
    assert ended.exit["outcome"] == "lost"
    assert not alive(MARK)


def test_files_of_tasks_that_no_journal_knows_go_at_the_next_start(home):
    agent = home.connect("agent")
    ended = home.run(agent, "echo", "kept")
    home.kill()
    for name in ("strange.seg", "strange.keeper", "notes.txt"):
        (home.home / "tasks" / name).touch()
    home.start()
    assert home.follow(home.connect("agent"), ended.task_id).said(1) == b"kept\n"
    left = {path.name for path in (home.home / "tasks").iterdir()}
    assert left == {f"{ended.task_id}.seg", f"{ended.task_id}.keeper", "notes.txt"}


def test_whoever_notices_may_sweep(home):
    agent = home.connect("agent")
    task = begin(home, agent, JOB)
    while home.follow_once(agent, task["task_id"]) < 3000:
        pass
    eventually(lambda: len(alive(MARK)) >= 3)
    assert sweep(str(home.home)) == 0  # a supervisor lives
    assert alive(MARK)
    home.kill()
    sweep(str(home.home))
    eventually(lambda: not alive(MARK))  # a keeper ends them by itself
    home.start()
    assert home.follow(home.connect("agent"), task["task_id"]).exit["outcome"] == "lost"


def test_a_torn_record_is_cut_off(home):
    agent = home.connect("agent")
    task = begin(home, agent, f"seq 3000; sleep {MARK}")
    while home.follow_once(agent, task["task_id"]) < len(SAID):
        pass
    home.kill()
    eventually(lambda: not alive(MARK) or home.containment == "cgroup")
    with open(home.home / "tasks" / (task["task_id"] + ".seg"), "ab") as file:
        file.write(segments.encode(segments.STDOUT, 0, 0, 0.0, b"never whole")[:-1])
    home.start()
    assert home.follow(home.connect("agent"), task["task_id"]).said() == SAID


def test_a_deleted_home_ends_tasks_and_supervisor(home):
    agent = home.connect("agent")
    begin(home, agent, f"sleep {MARK}")
    agent.recv()
    pid = home.process.pid
    delete(home.home)
    wait_dead(pid)
    assert not alive(MARK)
    assert not home.home.exists()


def test_a_swept_socket_comes_back(home):
    os.unlink(home.socket)
    eventually(lambda: os.path.exists(home.socket))
    home.connect().call("list")


def test_a_second_supervisor_of_a_home_leaves_at_once(home):
    second = home.spawn()
    assert os.read(second.ready, 1) == b""
    assert second.wait(60) == 0
    home.connect().call("list")


def test_a_supervisor_with_nothing_to_do_leaves(tmp_path):
    with SupervisorHome(tmp_path, idle_seconds=2.0) as home:
        client = home.connect("agent")
        task = begin(home, client, "sleep 0.3")
        client.close()
        assert home.process.wait(60) == 0
        assert not os.path.exists(home.socket)
        home.start()
        agent = home.connect("agent")
        assert home.follow(agent, task["task_id"]).exit["outcome"] == "succeeded"


def test_a_supervisor_started_in_the_background_of_a_shell_has_interruptible_jobs(tmp_path):
    """Such a shell ignores INT and QUIT for its children; a job must not inherit that."""
    home = SupervisorHome(tmp_path)

    def ignore():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)

    home.start(preexec_fn=ignore)
    try:
        agent = home.connect("agent")
        task = begin(home, agent, "echo ready; sleep 60")
        home.follow_once(agent, task["task_id"])
        agent.call("cancel", task_id=task["task_id"], mode="int", grace_seconds=60)
        assert home.follow(agent, task["task_id"]).exit["signal"] == signal.SIGINT
    finally:
        home.__exit__(None, None, None)


def test_a_full_disk_stops_the_log_and_not_the_job(home, tmp_path):
    """The limit on file sizes stands for the disk: both fail a write midway."""
    home.stop()

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))

    home.start(preexec_fn=small)
    agent = home.connect("agent")
    unlimited = [-1, -1]
    envelope = home.envelope(rlimits={"FSIZE": unlimited})
    screen = Screen(home, envelope=envelope)
    task_id = screen.start(home, agent, "sh", "-c", "seq 100000; seq 100000; exit 5")
    assert screen.until_exited()["exit_code"] == 5
    whole = b"".join(b"%d\n" % i for i in range(1, 100001))
    assert screen.out["1"] == whole * 2
    ended = home.follow(agent, task_id)
    assert whole.startswith(ended.records[0].data)
    lost = len(whole) * 2 - len(ended.said(1))
    counted = re.findall(r"(\d+) bytes of output were not kept: ", ended.notes)
    assert 0 < sum(map(int, counted)) <= lost
