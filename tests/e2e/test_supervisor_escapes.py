"""No process of a task that has ended survives, by any escape: twelve programs, four ways to end.

Each program leaves, or tries to leave, a process that carries the marker in its arguments. Where
a keeper does the work, the death of the supervisor and of the keeper at one instant is beyond it
for what has cleared its environment; that limit is not tried here.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys

import pytest

from tests.support.supervisor import SupervisorHome, alive, eventually, mark

pytestmark = pytest.mark.e2e

MARK = mark("65.875")
HOLD = f"echo ready; exec sleep {MARK}"
SLEEP = f"os.execvp('sleep', ['sleep', '{MARK}'])"
READY = "print('ready', flush=True)"


def bash(script):
    return ["bash", "-c", script]


def python(*lines):
    return [sys.executable, "-c", "\n".join(lines)]


ESCAPES = {
    "setsid": bash(f"setsid sleep {MARK} & {HOLD}"),
    "double fork": bash(f"(setsid bash -c 'sleep {MARK} & ' &) ; {HOLD}"),
    "daemon": python(
        "import os",
        "if os.fork() == 0:",
        "    os.setsid()",
        "    if os.fork(): os._exit(0)",
        "    os.chdir('/'); os.closerange(0, 100)",
        f"    {SLEEP}",
        f"{READY}; {SLEEP}",
    ),
    "empty environment": bash(f"env -i setsid sleep {MARK} & {HOLD}"),
    "ignores TERM": bash(f"trap '' TERM INT HUP; setsid sleep {MARK} & {HOLD}"),
    "fork storm": python(
        f"import os, time  # {MARK}",
        READY,
        "for _ in range(5): os.fork()",
        "end = time.monotonic() + 60",
        "while time.monotonic() < end:",
        "    if os.fork() == 0:",
        "        os.setsid()",
        "        if os.fork(): os._exit(0)",
        "        time.sleep(0.01); os._exit(0)",
        "    os.wait()",
    ),
    "nohup": bash(f"nohup sleep {MARK} >/dev/null 2>&1 & disown; {HOLD}"),
    "terminal of its own": python(
        "import os, pty",
        "pid, master = pty.fork()",
        f"if pid == 0: {SLEEP}",
        f"{READY}; {SLEEP}",
    ),
    "held pipe": bash(f"(setsid sleep {MARK} <&0 >&1 2>&2 &) ; {HOLD}"),
    "traced": python(
        "import ctypes, os, signal",
        "if os.fork() == 0:",
        "    ctypes.CDLL(None).ptrace(0, 0, 0, 0)",
        f"    {SLEEP}",
        READY,
        f"signal.pause()  # {MARK}",
    ),
    "delayed start": bash(
        f"(setsid bash -c 'sleep 0.05; exec sleep {MARK}' & ) ; echo ready; sleep .02; sleep {MARK}"
    ),
    "another manager": bash(
        f"systemd-run --user --scope sleep {MARK} 2>/dev/null; "
        f"at now <<< 'sleep {MARK}' 2>/dev/null; {HOLD}"
    ),
}


@pytest.fixture(params=["cgroup", "keeper"])
def home(request, tmp_path):
    with SupervisorHome(tmp_path, containment=request.param) as home:
        yield home


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("end", ["cancel", "timeout", "leader", "supervisor"])
def test_nothing_survives(home, escape, end):
    agent = home.connect("agent")
    envelope_id = agent.call("envelope", envelope=home.envelope(), keep=False)["envelope_id"]
    task = home.task(
        *ESCAPES[escape],
        envelope_id=envelope_id,
        grace_seconds=0.05,
        timeout_seconds=0.6 if end == "timeout" else None,
    )
    pid = agent.call("start", task=task)["pid"]
    home.follow_once(agent, task["task_id"])
    if end != "timeout":  # whose time may be up before a busy machine has come so far
        eventually(lambda: alive(MARK))
    if end == "cancel":
        agent.call("cancel", task_id=task["task_id"], mode="term", grace_seconds=0.05)
    elif end == "leader":
        os.kill(pid, signal.SIGKILL)
    elif end == "supervisor":
        home.kill()
        home.start()
        agent = home.connect("agent")
    ended = home.follow(agent, task["task_id"])
    expected = {"cancel": "cancelled", "timeout": "timed_out", "leader": "failed"}
    assert ended.exit["outcome"] == expected.get(end, "lost")
    assert alive(MARK) == []


def test_the_programs_it_uses_are_there():
    assert all(shutil.which(name) for name in ("bash", "setsid", "env", "sleep", "nohup"))
