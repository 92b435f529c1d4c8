"""The supervisor runs tasks: in which world, how they end, and what it keeps of them."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

import pytest

from gpulayer.runtime import frames
from tests.support.supervisor import Screen, SupervisorHome

pytestmark = pytest.mark.e2e


SOON = 0.5


@pytest.fixture(params=["cgroup", "keeper"])
def home(request, tmp_path):
    with SupervisorHome(tmp_path, containment=request.param) as home:
        yield home


@pytest.fixture
def agent(home):
    return home.connect("agent")


def test_a_command_runs_and_its_output_is_in_the_log(home, agent):
    ended = home.run(agent, "sh", "-c", "echo hello; echo oh >&2")
    assert ended.exit["outcome"] == "succeeded"
    assert ended.said(1) == b"hello\n"
    assert ended.said(2) == b"oh\n"
    assert not ended.notes


def test_whoever_starts_a_task_can_follow_it_with_the_same_request(home, agent):
    """So a short command costs its starter two messages, and the supervisor two answers."""
    task = home.task("sh", "-c", "echo hello; exit 3")
    agent.send_json(
        {"op": "start", "seq": 71, "task": task, "tail": {"seq": 72, "max_bytes": 1 << 20}}
    )
    answers, log = {}, b""
    while not log or len(answers) < 2:  # a keeper's word and the job's own come by two roads
        kind, payload, _ = agent.recv()
        if kind == frames.JSON:
            answers[payload["seq"]] = payload
        else:
            log = payload
    printed = answers[72]
    assert answers[71]["ok"] is True
    assert b"hello" in log
    if not printed["eof"]:
        rest = agent.call("tail", task_id=task["task_id"], offset=len(log), max_bytes=1)
        assert rest["exit"]["exit_code"] == 3
    agent.send_json({"op": "forget", "task_id": task["task_id"]})
    assert agent.call("list")["tasks"] == []  # nothing was said in between


def test_the_follower_of_a_task_that_cannot_start_is_told_so_after_the_refusal(home):
    home.kill()
    home.start(reattach_seconds=SOON)
    agent = home.connect("agent")
    task = home.task("true", envelope_id="0" * 64, environ=None)
    agent.send_json({"op": "start", "seq": 71, "task": task, "tail": {"seq": 72}})
    refused, gone = agent.recv()[1], agent.recv()[1]
    assert (refused["seq"], refused["error"]["code"]) == (71, "envelope-lost")
    assert (gone["seq"], gone["error"]["code"]) == (72, "no-such-task")


@pytest.mark.parametrize("way", ["quick", "long"])
def test_a_job_sees_the_world_of_its_envelope_and_nothing_of_the_supervisors(home, agent, way):
    script = (
        "import json, os, resource, signal, sys\n"
        "mask = [l for l in open('/proc/self/status') if l.startswith(('SigBlk', 'SigIgn'))]\n"
        "umask = os.umask(0)\n"
        "print(json.dumps({'env': dict(os.environ), 'cwd': os.getcwd(), 'umask': umask,\n"
        " 'nofile': resource.getrlimit(resource.RLIMIT_NOFILE), 'nice': os.nice(0),\n"
        " 'cpus': sorted(os.sched_getaffinity(0)), 'fds': sorted(os.listdir('/proc/self/fd')),\n"
        " 'session': os.getsid(0) == os.getpid(), 'masks': [m.split()[1] for m in mask]}))\n"
    )
    cpus = sorted(os.sched_getaffinity(0))[: 1 if way == "long" else None]
    hard = 200 if way == "long" else resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    envelope = home.envelope(
        environ=["PATH=/bin", "ODD%%=x=y", "EMPTY=", "LC_ALL=C.UTF-8"],
        umask=0o027,
        rlimits={"NOFILE": [100, hard]},
        nice=3 if way == "long" else 0,
        affinity=cpus,
        ignored_signals=[int(signal.SIGHUP)] if way == "long" else [],
    )
    ended = home.run(agent, sys.executable, "-I", "-S", "-c", script, envelope=envelope)
    seen = json.loads(ended.said(1))
    assert seen["env"].pop("GPULAYER_FENCE").startswith("task1:")
    assert seen["env"] == {"PATH": "/bin", "ODD%%": "x=y", "EMPTY": "", "LC_ALL": "C.UTF-8"}
    assert seen["cwd"] == str(home.folder)
    assert seen["umask"] == 0o027
    assert seen["nofile"] == [100, hard]
    assert seen["nice"] == envelope["nice"]
    assert seen["cpus"] == cpus
    assert [fd for fd in seen["fds"] if int(fd) > 2] == ["3"]  # the listing itself
    assert seen["session"]
    blocked, ignored = (int(mask, 16) for mask in seen["masks"])
    assert blocked == 0
    python_ignores = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert ignored & ~python_ignores == (1 << (signal.SIGHUP - 1) if way == "long" else 0)


def test_bytes_that_are_no_text_reach_the_job(home, agent):
    envelope = home.envelope(environ=["PATH=/bin:/usr/bin", "RAW=\udcff\udcfe"])
    ended = home.run(agent, "sh", "-c", 'printf %s "$RAW"', envelope=envelope)
    assert ended.said(1) == b"\xff\xfe"


def test_set_and_unset_change_the_environment_and_unbuffered_only_fills_a_gap(home, agent):
    script = 'echo "$A-$HOME-$PYTHONUNBUFFERED"'
    ended = home.run(agent, "sh", "-c", script, set={"A": "1"}, unset=["HOME"], unbuffered=True)
    assert ended.said(1) == b"1--1\n"
    envelope = home.envelope(environ=["PATH=/bin", "PYTHONUNBUFFERED="])
    ended = home.run(agent, "sh", "-c", script, envelope=envelope, unbuffered=True)
    assert ended.said(1) == b"--\n"


EXITS = {
    "exit 0": ("succeeded", "exited", 0),
    "exit 3": ("failed", "exited", 3),
    "exit 256": ("succeeded", "exited", 0),
    "kill -9 $$": ("failed", "killed", 137),
    "kill -11 $$": ("failed", "killed", 139),
    "kill -TERM $$": ("failed", "killed", 143),
    "kill -64 $$": ("failed", "killed", 192),
}


@pytest.mark.parametrize("script", EXITS)
def test_exit_codes_are_those_of_a_shell(home, agent, script):
    ended = home.run(agent, "bash", "-c", script)
    assert (ended.exit["outcome"], ended.exit["reason"], ended.exit["exit_code"]) == EXITS[script]


def test_commands_that_cannot_run_get_the_codes_of_a_shell(home, agent):
    folder = home.folder
    (folder / "plain").write_text("echo no\n")
    (folder / "foreign").write_bytes(b"\x7fABC\0\0\0")
    (folder / "orphan").write_text("#!/no/such/interpreter\n")
    (folder / "script").write_text('echo "a script $0 $1"\n')
    for name in ("foreign", "orphan", "script"):
        (folder / name).chmod(0o755)
    expected = {
        "nosuch": ("not-found", 127),
        "./nosuch": ("not-found", 127),
        "./orphan": ("not-found", 127),
        "./plain": ("not-executable", 126),
        "/bin": ("not-executable", 126),
        "./plain/x": ("not-executable", 126),
        "./foreign": ("not-executable", 126),
        "": ("not-found", 127),
    }
    for command, (code, exit_code) in expected.items():
        with pytest.raises(frames.Refused) as refused:
            home.run(agent, command)
        assert (refused.value.code, refused.value.details["exit"]["exit_code"]) == (code, exit_code)
    assert agent.call("list")["tasks"] == []
    assert list((home.home / "tasks").iterdir()) == []
    assert home.run(agent, "./script", "x").said(1) == b"a script ./script x\n"


def test_a_command_is_looked_up_with_the_jobs_path_in_the_jobs_folder(home, agent):
    (home.folder / "here").mkdir()
    for path, text in (("here/tool", "relative"), ("tool", "dot")):
        (home.folder / path).write_text(f"#!/bin/sh\necho {text}\n")
        (home.folder / path).chmod(0o755)
    envelope = home.envelope(environ=["PATH=/nowhere:here:/bin"])
    assert home.run(agent, "tool", envelope=envelope).said(1) == b"relative\n"
    envelope = home.envelope(environ=["PATH=:/bin"])
    assert home.run(agent, "tool", envelope=envelope).said(1) == b"dot\n"


def test_argv0_is_what_the_program_sees_as_its_name(home, agent):
    ended = home.run(agent, "sh", "-c", "ps -o args= $$ || cat /proc/$$/cmdline", argv0="odd name")
    assert ended.said(1).startswith(b"odd name")


def test_a_folder_that_is_gone_or_replaced_is_said_so(home, agent):
    envelope = home.envelope()
    home.folder.rename(home.folder.with_name("moved"))
    with pytest.raises(frames.Refused, match="gone") as gone:
        home.run(agent, "true", envelope=envelope)
    home.folder.mkdir()
    with pytest.raises(frames.Refused, match="replaced") as replaced:
        home.run(agent, "true", envelope=envelope)
    assert gone.value.code == replaced.value.code == "folder-gone"
    assert gone.value.details["exit"]["reason"] == "folder_gone"
    assert home.run(agent, "pwd", envelope=envelope, cwd="/").said(1) == b"/\n"


def test_a_lost_envelope_is_said_so_and_a_kept_one_outlives_the_supervisor(home, agent):
    envelope = home.envelope()
    kept = agent.call("envelope", envelope=envelope, keep=True)["envelope_id"]
    other = agent.call("envelope", envelope=home.envelope(umask=0o77), keep=False)["envelope_id"]
    assert (home.runtime / "envelopes" / kept).stat().st_mode & 0o777 == 0o600
    home.kill()
    home.start(reattach_seconds=SOON)
    agent = home.connect("agent")
    with pytest.raises(frames.Refused) as lost:
        agent.call("start", task=home.task("true", envelope_id=other))
    assert lost.value.code == "envelope-lost"
    task = home.task("true", envelope_id=kept)
    agent.call("start", task=task)
    assert home.follow(agent, task["task_id"]).exit["outcome"] == "succeeded"
    agent.call("drop", envelope_ids=[kept, "none"])


def test_a_start_waits_for_a_client_that_comes_back_from_a_supervisor_that_died(home):
    ids = Screen(home).ids
    home.kill()
    home.start()
    agent = home.connect("agent")
    task = home.task("echo", "there", **ids, stdin="attach")
    agent.send_json({"op": "start", "seq": 1000, "task": task})
    agent.call("list")  # the start is there by now
    screen = Screen(home, attach_id=ids["attach_id"])
    assert screen.until_exited()["outcome"] == "succeeded"
    assert screen.out["1"] == b"there\n"


def test_another_client_of_the_same_world_is_not_taken_for_the_one_that_comes_back(home):
    """Terminals that are alike have one envelope, so that it being there says nothing."""
    ids = Screen(home).ids
    home.kill()
    home.start()
    agent = home.connect("agent")
    other = Screen(home)
    assert other.ids["envelope_id"] == ids["envelope_id"]
    assert other.ids["attach_id"] != ids["attach_id"]
    task = home.task("echo", "there", **ids, stdin="attach")
    agent.send_json({"op": "start", "seq": 1000, "task": task})
    assert agent.call("list")["tasks"] == []
    screen = Screen(home, attach_id=ids["attach_id"])
    assert screen.until_exited()["outcome"] == "succeeded"
    assert screen.out["1"] == b"there\n"


def test_a_start_waits_for_a_world_that_is_brought_again(home):
    envelope = home.envelope()
    first = home.connect()
    given = first.call("envelope", envelope=envelope, keep=False)["envelope_id"]
    home.kill()
    home.start()
    agent = home.connect("agent")
    task = home.task("true", envelope_id=given)
    agent.send_json({"op": "start", "seq": 1000, "task": task})
    assert agent.call("list")["tasks"] == []
    home.connect().call("envelope", envelope=envelope, keep=False)
    assert home.follow(agent, task["task_id"]).exit["outcome"] == "succeeded"


def test_a_start_does_not_wait_for_ever_for_a_client(home):
    ids = Screen(home).ids
    home.kill()
    home.start(reattach_seconds=SOON)
    agent = home.connect("agent")
    with pytest.raises(frames.Refused) as lost:
        agent.call("start", task=home.task("true", **ids, stdin="attach"))
    assert lost.value.code == "envelope-lost"


def test_starting_twice_runs_once(home, agent):
    task = home.task("sh", "-c", "echo once >> ran; cat /proc/self/stat > /dev/null", environ={})
    task["cwd"] = str(home.folder)
    task["environ"] = {"PATH": "/bin:/usr/bin"}
    first = agent.call("start", task=task)["pid"]
    assert agent.call("start", task=task)["pid"] == first
    home.follow(agent, task["task_id"])
    assert agent.call("start", task=task)["pid"] == first
    assert (home.folder / "ran").read_text() == "once\n"


def test_a_task_stays_until_it_is_forgotten(home, agent):
    ended = home.run(agent, "echo", "x")
    (listed,) = agent.call("list")["tasks"]
    assert (listed["state"], listed["exit"], listed["log_size"]) == (
        "exited",
        ended.exit,
        len(ended.log),
    )
    assert home.follow(agent, ended.task_id).log == ended.log
    agent.call("forget", task_id=ended.task_id)
    agent.call("forget", task_id=ended.task_id)
    assert agent.call("list")["tasks"] == []
    assert list((home.home / "tasks").iterdir()) == []


def test_a_running_task_cannot_be_forgotten_and_keeps_the_supervisor(home, agent):
    envelope_id = agent.call("envelope", envelope=home.envelope(), keep=False)["envelope_id"]
    task = home.task("sleep", "60", envelope_id=envelope_id)
    agent.call("start", task=task)
    for op in ({"op": "forget", "task_id": task["task_id"]}, {"op": "quit"}):
        with pytest.raises(frames.Refused) as refused:
            agent.call(**op)
        assert refused.value.code == "running"
    agent.call("cancel", task_id=task["task_id"], mode="kill", grace_seconds=0)
    ended = home.follow(agent, task["task_id"])
    assert (ended.exit["outcome"], ended.exit["signal"]) == ("cancelled", 9)
    agent.call("quit")
    assert home.process.wait(60) == 0
    assert not os.path.exists(home.socket)


def test_usage_is_told(home, agent):
    ended = home.run(agent, "bash", "-c", "for i in {1..30000}; do :; done")
    assert ended.exit["usage"]["user_seconds"] > 0
    assert ended.exit["usage"]["max_rss_bytes"] > 100_000
    assert ended.exit["ended_at"] >= ended.exit["started_at"]


def test_secrets_are_neither_in_the_log_nor_shown(home, agent):
    secret = "s3cr3t-value"
    script = f"printf 's3cr3t'; sleep 0.05; printf -- '-value\\n'; printf '{secret}' | base64"
    ended = home.run(agent, "sh", "-c", script, redact=[["KEY", secret]])
    assert ended.said(1).startswith(b"[redacted:KEY]\n[redacted:KEY]")


def test_a_log_keeps_its_head_and_says_what_was_cut(home, agent):
    ended = home.run(agent, "sh", "-c", "seq 100000", log_limit_bytes=1000)
    whole = b"".join(b"%d\n" % i for i in range(1, 100001))
    assert ended.said(1) == whole[:1000]
    assert f"{len(whole) - 1000} bytes" in ended.notes


def test_everybody_who_follows_gets_the_same_bytes(home, agent):
    envelope_id = agent.call("envelope", envelope=home.envelope(), keep=False)["envelope_id"]
    task = home.task("sh", "-c", "seq 20000", envelope_id=envelope_id)
    agent.call("start", task=task)
    logs = {home.follow(home.connect(), task["task_id"]).log for _ in range(3)}
    assert len(logs) == 1


def test_a_newer_agent_replaces_the_older(home, agent):
    newer = home.connect("agent")
    with pytest.raises(EOFError):
        agent.call("list")
    newer.call("list")


def test_requests_that_make_no_sense_are_answered_and_harm_nobody(home, agent):
    for request in (
        {"op": "start", "task": {"task_id": "../x", "argv": ["true"]}},
        {"op": "start", "task": {}},
        {"op": "start"},
        {"op": "tail", "task_id": "none", "offset": 0},
        {"op": "cancel", "task_id": "none", "mode": "int"},
        {"op": "nonsense"},
        {"op": "envelope", "envelope": 7},
        {"op": "winsize", "rows": 1, "cols": 1},
    ):
        with pytest.raises(frames.Refused):
            agent.call(**request)
    broken = home.connect()
    broken.send("J", b"{")
    with pytest.raises(EOFError):
        broken.recv()
    assert home.run(agent, "true").exit["outcome"] == "succeeded"


def test_a_command_with_a_zero_byte_is_refused(home, agent):
    with pytest.raises(frames.Refused) as refused:
        home.run(agent, "echo", "a\0b")
    assert refused.value.code == "spawn-failed"


def test_an_environment_that_is_too_large_is_said_so(home, agent):
    with pytest.raises(frames.Refused) as refused:
        home.run(agent, "true", set={"BIG": "x" * (1 << 18)})
    assert refused.value.code == "spawn-failed"
    assert "too long" in str(refused.value)
