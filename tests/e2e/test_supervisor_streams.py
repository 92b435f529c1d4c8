"""What an attached client sees and does: pipes, mirrored terminals, keys, stops, a lost reader."""

from __future__ import annotations

import os
import select
import signal
import termios
import time

import pytest

from gpulayer.runtime import frames
from tests.support.supervisor import Screen, SupervisorHome, alive, eventually, mark

pytestmark = pytest.mark.e2e

MARK = mark("63.75")
TERMINAL = {"0": "terminal", "1": "terminal", "2": "terminal"}


@pytest.fixture(params=["cgroup", "keeper"])
def home(request, tmp_path):
    with SupervisorHome(tmp_path, containment=request.param) as home:
        yield home


@pytest.fixture
def agent(home):
    return home.connect("agent")


def settings(**changes):
    """The settings of a fresh terminal, as a client would send its own."""
    master, slave = os.openpty()
    attrs = termios.tcgetattr(slave)
    attrs[1] &= ~termios.OPOST
    attrs[6] = [c if isinstance(c, int) else c[0] for c in attrs[6]]
    os.close(master)
    os.close(slave)
    return {"attrs": attrs, "rows": 31, "cols": 97, **changes}


def in_terminal(home, agent, *argv, **changes):
    screen = Screen(home, streams=TERMINAL, merged=True, mode="terminal", terminal=settings())
    screen.start(home, agent, *argv, **changes)
    return screen


def test_output_comes_on_its_own_stream_and_the_exit_after_the_last_byte(home, agent):
    screen = Screen(home)
    task_id = screen.start(home, agent, "sh", "-c", "seq 50000; seq 9 >&2; exit 4")
    assert screen.until_exited()["exit_code"] == 4
    assert screen.out["1"] == b"".join(b"%d\n" % i for i in range(1, 50001))
    assert screen.out["2"] == b"".join(b"%d\n" % i for i in range(1, 10))
    log = home.follow(agent, task_id)
    assert log.said(1) == screen.out["1"]
    assert log.said(2) == screen.out["2"]


def test_outputs_that_are_one_file_keep_their_order(home, agent):
    screen = Screen(home, merged=True)
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done"
    task_id = screen.start(home, agent, "sh", "-c", script)
    screen.until_exited()
    expected = b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 10))
    assert screen.out["T"] == expected
    assert home.follow(agent, task_id).said(3) == expected


def test_standard_input_is_the_clients_own_descriptor(home, agent):
    path = home.folder / "lines"
    path.write_text("one\ntwo\nthree\n")
    with path.open() as file:
        connection = home.connect()
        envelope = home.envelope()
        ids = connection.call(
            "attach",
            fds={"stdin": file.fileno()},
            envelope=envelope,
            streams={"0": "passed", "1": "pipe", "2": "pipe"},
            mode="plain",
        )
        task = home.task("sh", "-c", "read a; echo got $a", **ids, stdin="attach")
        agent.call("start", task=task)
        assert home.follow(agent, task["task_id"]).said(1) == b"got one\n"
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 4  # as the bare line leaves it


def test_a_client_that_leaves_lets_its_job_go_on(home, agent):
    screen = Screen(home)
    fifo = home.folder / "go"
    os.mkfifo(fifo)
    task_id = screen.start(home, agent, "sh", "-c", "echo before; read x < go; echo after")
    screen.until_shown(b"before", "1")
    screen.leave()
    fifo.write_text("x\n")
    assert home.follow(agent, task_id).said(1) == b"before\nafter\n"


def test_a_client_that_leaves_before_the_start_is_forgotten_but_its_world_is_not(home, agent):
    screen = Screen(home)
    screen.leave()
    eventually(lambda: len(agent.call("list")) and True)
    task = home.task("sh", "-c", "cat; pwd", **screen.ids, stdin="attach")
    agent.call("start", task=task)
    assert home.follow(agent, task["task_id"]).said(1) == f"{home.folder}\n".encode()


def test_a_reader_that_left_ends_the_writer_as_a_pipe_would(home, agent):
    screen = Screen(home)
    task_id = screen.start(home, agent, "yes")
    screen.until_shown(b"y\n", "1")
    screen.say("closed", stream=1)
    ending = screen.until_exited()
    assert (ending["signal"], ending["exit_code"]) == (13, 141)
    assert "reader" in home.follow(agent, task_id).notes


def test_a_client_that_stops_reading_slows_the_job_and_costs_no_memory(home, agent):
    screen = Screen(home)
    script = "head -c 200000000 /dev/zero; touch done"
    task_id = screen.start(home, agent, "sh", "-c", script)
    size, since = 0, time.monotonic()
    while not size or time.monotonic() - since < 1:  # until it has come to rest
        before, size = size, agent.call("list")["tasks"][0]["log_size"]
        since = since if size == before else time.monotonic()
        select.select([], [], [], 0.02)
    assert size < 8_000_000
    assert not (home.folder / "done").exists()
    memory = rss(home)
    screen.until_exited()
    assert len(screen.out["1"]) == 200_000_000
    assert rss(home) - memory < 4_000
    assert agent.call("list")["tasks"][0]["task_id"] == task_id


def rss(home):
    with open(f"/proc/{home.process.pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def test_a_line_of_100_mb_of_no_text_costs_no_memory(home, agent):
    before = rss(home)
    script = "tr '\\0' '\\377' < /dev/zero | head -c 100000000"
    ended = home.run(agent, "sh", "-c", script, redact=[["KEY", "not-in-there"]])
    assert len(ended.said(1)) == 100_000_000
    assert rss(home) - before < 4_000


def test_a_held_pipe_does_not_hold_the_end(home, agent):
    """The descriptor leaves the task by a socket, so its end is never seen."""
    import array
    import socket

    path = str(home.runtime / "x.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        script = (
            "import array, socket\n"
            f"s = socket.socket(socket.AF_UNIX); s.connect({path!r})\n"
            "s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))])\n"
            "print('done')\n"
        )
        screen = Screen(home)
        screen.start(home, agent, "python3", "-c", script)
        peer, _ = listener.accept()
        with peer:
            _, ancillary, _, _ = peer.recvmsg(1, socket.CMSG_SPACE(4))
            assert screen.until_exited()["outcome"] == "succeeded"
            assert screen.out["1"] == b"done\n"
            os.close(array.array("i", ancillary[0][2])[0])


def test_a_mirrored_screen_shows_bytes_as_they_are_and_is_a_terminal(home, agent):
    screen = Screen(home, streams={"1": "terminal", "2": "pipe"}, terminal={"rows": 20, "cols": 70})
    script = "test -t 1 && ! test -t 2 && stty size <&1 && echo $PAGER && printf 'a\\nb\\r\\t\\377'"
    screen.start(home, agent, "bash", "-c", script)
    assert screen.until_exited()["exit_code"] == 0
    assert screen.out["1"] == b"20 70\ncat\na\nb\r\t\xff"


def test_in_terminal_mode_the_job_has_a_terminal_of_its_own(home, agent):
    script = (
        "tty; test -t 0 && test -t 1 && test -t 2 && stty size; ps -o stat= $$; echo x >/dev/tty"
    )
    screen = in_terminal(home, agent, "bash", "-c", script)
    assert screen.until_exited()["exit_code"] == 0
    tty, size, state, echoed = screen.out["T"].splitlines()
    assert tty.startswith(b"/dev/pts/")
    assert size == b"31 97"
    assert b"+" in state  # in the foreground
    assert echoed == b"x"


def test_keys_reach_the_job_and_interrupt_it(home, agent):
    screen = in_terminal(
        home, agent, "bash", "-c", "read a; echo got-$a; trap '' TERM; cat; exit 9"
    )
    screen.type(b"word\n")
    screen.until_shown(b"got-word")
    screen.type(b"")
    assert screen.until_exited()["exit_code"] == 9
    screen = in_terminal(home, agent, "bash", "-c", "echo ready; sleep 60; true")
    screen.until_shown(b"ready")
    screen.type(b"\x03")
    ending = screen.until_exited()
    assert (ending["outcome"], ending["signal"]) == ("cancelled", 2)


def test_a_stop_key_stops_the_job_and_it_can_be_continued(home, agent):
    screen = in_terminal(home, agent, "bash", "-c", "echo ready; read a; echo on-$a")
    screen.until_shown(b"ready")
    screen.type(b"\x1a")
    screen.until(lambda: screen.event("stopped") is not None)
    assert screen.event("stopped")["signal"] == signal.SIGTSTP
    screen.say("signal", signum=int(signal.SIGCONT), target="group")
    screen.until(lambda: screen.event("continued") is not None)
    screen.type(b"again\n")
    assert screen.until_exited()["exit_code"] == 0
    assert b"on-again" in screen.out["T"]


def test_a_stopped_job_can_be_cancelled(home, agent):
    screen = in_terminal(home, agent, "bash", "-c", "echo ready; read a")
    screen.until_shown(b"ready")
    screen.type(b"\x1a")
    screen.until(lambda: screen.event("stopped") is not None)
    agent.call("cancel", task_id=screen.events[0]["task_id"], mode="term", grace_seconds=60)
    assert screen.until_exited()["outcome"] == "cancelled"


def test_a_job_that_takes_keys_raw_is_told_to_the_client(home, agent):
    script = "stty -isig; echo raw; read a; stty isig; echo cooked; read b"
    screen = in_terminal(home, agent, "bash", "-c", script)
    screen.until(lambda: any(e.get("isig") is False for e in screen.events))
    screen.type(b"\n")
    screen.until(lambda: any(e.get("isig") is True for e in screen.events))
    screen.type(b"\n")
    screen.until_exited()


def test_a_change_of_size_reaches_the_job(home, agent):
    script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.02; done"
    screen = in_terminal(home, agent, "bash", "-c", script)
    screen.until_shown(b"ready")
    screen.say("winsize", rows=11, cols=22)
    screen.until_exited()
    assert b"11 22" in screen.out["T"]
    screen = Screen(home, streams={"1": "terminal"}, terminal={"rows": 5, "cols": 5})
    screen.start(home, agent, "bash", "-c", script.replace("stty size", "stty size <&1"))
    screen.until_shown(b"ready", "1")
    screen.say("winsize", rows=12, cols=23)
    screen.until_exited()
    assert b"12 23" in screen.out["1"]


def test_a_terminal_with_a_piped_input_gives_the_pipe_to_the_job(home, agent):
    reader, writer = os.pipe()
    os.write(writer, b"from the pipe\n")
    os.close(writer)
    connection = home.connect()
    ids = connection.call(
        "attach",
        fds={"stdin": reader},
        envelope=home.envelope(),
        streams={"0": "passed", "1": "terminal", "2": "terminal"},
        mode="terminal",
        terminal=settings(),
    )
    os.close(reader)
    task = home.task("bash", "-c", "cat; read k </dev/tty; echo key-$k", **ids, stdin="attach")
    agent.call("start", task=task)
    shown = b""
    while b"from the pipe" not in shown:
        kind, payload, _ = connection.recv()
        shown += payload if kind == frames.TERMINAL else b""
    connection.send(frames.INPUT, b"q\n")
    assert b"key-q" in home.follow(agent, task["task_id"]).said(3)


def test_the_kill_of_a_client_is_answered_by_the_proof(home, agent):
    screen = Screen(home)
    screen.start(home, agent, "bash", "-c", f"trap '' INT TERM; setsid sleep {MARK} & sleep {MARK}")
    screen.say("kill")
    assert screen.until_exited()["outcome"] == "cancelled"
    assert not alive(MARK)


def test_a_refused_start_is_told_to_the_client_as_an_exit(home, agent):
    screen = Screen(home)
    with pytest.raises(frames.Refused):
        agent.call("start", task=home.task("no-such-command", **screen.ids))
    ending = screen.until_exited()
    assert (ending["reason"], ending["exit_code"]) == ("not_found", 127)


def test_secrets_are_not_shown_to_the_client_either(home, agent):
    screen = Screen(home, streams=TERMINAL, merged=True, mode="terminal", terminal=settings())
    secret = "hunter2-hunter2"
    script = "printf hunter2; sleep 0.05; echo -hunter2; printf hunter2-; sleep 60"
    screen.start(home, agent, "sh", "-c", script, redact=[["PW", secret]])
    screen.until_shown(b"[redacted:PW]\nhunter2-")  # the rest is shown after a silence
    screen.say("kill")
    screen.until_exited()


def test_standard_input_may_be_a_file_of_the_task_and_never_a_link(home, agent):
    path, link = home.folder / "words", home.folder / "link"
    path.write_text("from a file")
    link.symlink_to(path)
    assert home.run(agent, "cat", stdin=str(path)).said(1) == b"from a file"
    for wrong in (link, home.folder / "nothing"):
        with pytest.raises(frames.Refused):
            home.run(agent, "cat", stdin=str(wrong))
