"""Into a running job, here and on a machine that joined: commands, shells, deaths on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from gpulayer.sdk.waiting import look_again
from tests.support.inside import GPULAYER, Afar, Here, Place
from tests.support.local_home import SECONDS, LocalHome, slay
from tests.support.person import Person
from tests.support.supervisor import alive, mark

pytestmark = pytest.mark.e2e

MARK = mark("93.25")
MARKED = f"sleep {MARK[:3]}''{MARK[3:]}"
SLEEP = ("sh", "-c", f"exec {MARKED}")
"""What carries the mark, while the line that asks for it does not."""
CTRL_C, CTRL_D = "\x03", "\x04"
ALL_BYTES = bytes(range(256)) * 4


@pytest.fixture(scope="module", params=["here", "afar"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with Here() if request.param == "here" else Afar() as place:
        yield place


@pytest.fixture(scope="module")
def job(place: Place) -> str:
    return place.running("export COLOUR=blue; touch here; exec sleep 1000")


def inside(place: Place, job: str, *words: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    return place.line("exec", job, "--", *words, **how)


def person(place: Place, *words: str, **size: int) -> Person:
    return Person([*GPULAYER, *words], place.home.environ, place.home.work, **size)


def test_output_and_exit_code_are_the_commands_own(place: Place, job: str) -> None:
    done = inside(place, job, "sh", "-c", "printf 'a\\0b'; echo no >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == (b"a\0b", b"no\n", 7)


def test_it_sees_the_jobs_world(place: Place, job: str) -> None:
    script = 'ls here && [ "$PWD" -ef . ] && echo "$GPULAYER_JOB_ID:$CUDA_VISIBLE_DEVICES:"'
    assert inside(place, job, "sh", "-c", script).stdout == f"here\n{job}::\n".encode()


def test_every_byte_goes_in_and_comes_out(place: Place, job: str) -> None:
    done = inside(place, job, "cat", input=ALL_BYTES * 4_000)
    assert done.stdout == ALL_BYTES * 4_000
    done = inside(place, job, "wc", "-c", input=b"")
    assert done.stdout.strip() == b"0"


def test_a_loop_keeps_its_own_input_where_none_is_wanted(place: Place, job: str) -> None:
    done = place.line("exec", "--stdin", "none", job, "--", "cat", input=b"mine\n")
    assert (done.stdout, done.returncode) == (b"", 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["no-such-command"], 127, b"command not found: no-such-command\n"),
        (["/etc/passwd"], 126, b"Permission denied\n"),
        (["sh", "-c", "exit 255"], 255, b""),
    ],
    ids=["missing", "not-executable", "255"],
)
def test_exit_codes(place: Place, job: str, words: list[str], code: int, said: bytes) -> None:
    done = inside(place, job, *words)
    assert done.returncode == code
    assert done.stderr.endswith(said)


def test_a_command_that_a_signal_ends_ends_its_visitor_by_it(place: Place, job: str) -> None:
    assert inside(place, job, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_who_reads_no_more_is_told_to_the_command(place: Place, job: str) -> None:
    with place.begun("exec", job, "--", "yes", stdout=subprocess.PIPE) as yes:
        assert yes.stdout is not None
        assert yes.stdout.read(2) == b"y\n"
        yes.stdout.close()
        assert yes.wait(SECONDS) in (-signal.SIGPIPE, 141)


def test_a_reader_that_stops_holds_the_command_back(place: Place, job: str) -> None:
    """Flat memory everywhere in between: the command has written little more than pipes hold."""
    script = "head -c 100000000 /dev/zero; touch all-written"
    with place.begun("exec", job, "--", "sh", "-c", script, stdout=subprocess.PIPE) as slow:
        assert slow.stdout is not None
        slow.stdout.read(1)
        done = inside(place, job, "sh", "-c", "sleep 0.5; ls all-written")
        assert done.stdout != b"all-written\n"
        while slow.stdout.read(1 << 20):
            pass
        assert slow.wait(SECONDS) == 0
    assert inside(place, job, "rm", "all-written").returncode == 0


def test_ctrl_c_is_the_commands_affair(place: Place, job: str) -> None:
    script = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    with place.begun("exec", job, "--", "sh", "-c", script, stdout=subprocess.PIPE) as begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == b"ready\n"
        begun.send_signal(signal.SIGINT)
        assert begun.stdout.readline() == b"caught\n"
        assert begun.wait(SECONDS) == 3


def test_a_terminal_is_given_on_demand_and_follows_this_one(place: Place, job: str) -> None:
    # Keys and a new size come by two roads: which of them is first is not told.
    has_changed = 'until [ "$(stty size)" = "41 90" ]; do sleep 0.05; done'
    script = f"stty size; tty >/dev/null && echo $TERM; read x; {has_changed}; stty size; exit 5"
    with person(place, "exec", "-it", job, "--", "sh", "-c", script, rows=31, cols=101) as ada:
        before = ada.modes()
        ada.sees("31 101")
        ada.sees("xterm")
        ada.until_raw_signals_are_off()
        ada.resizes(41, 90)
        os.kill(ada.pid, signal.SIGWINCH)
        ada.types("\n")
        ada.sees("41 90")
        assert ada.ends() == 5
        assert ada.modes() == before


def test_ctrl_c_in_a_terminal_is_a_key(place: Place, job: str) -> None:
    # A shell looks at its traps between two commands: a key before a long one would wait for it.
    script = "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.1; done"
    with person(place, "exec", "-t", job, "--", "sh", "-c", script) as ada:
        ada.sees("ready")
        ada.until_raw_signals_are_off()
        ada.types(CTRL_C)
        ada.sees("caught")
        assert ada.ends() == 4


def test_without_a_terminal_here_there_is_none_there(place: Place, job: str) -> None:
    done = place.line("exec", "-t", job, "--", "sh", "-c", "[ -t 0 ] || echo none")
    assert done.stdout == b"none\n"
    assert b"no terminal" in done.stderr


def test_a_shell_says_where_one_is_and_takes_lines(place: Place, job: str) -> None:
    with person(place, "shell", job) as ada:
        ada.sees(f"in {job} on ")
        ada.until_raw_signals_are_off()
        ada.types("echo $GPULAYER_JOB_ID-$((1+1)); exit 6\n")
        ada.sees(f"{job}-2")
        assert ada.ends() == 6


def test_a_shell_reads_a_script_from_a_pipe(place: Place, job: str) -> None:
    done = place.line("shell", job, input=b"echo $((6*7))\nexit 9\n")
    assert (done.stdout, done.returncode) == (b"42\n", 9)


def test_many_at_once_do_not_mix(place: Place, job: str) -> None:
    found: dict[int, bytes] = {}

    def go(number: int) -> None:
        script = f"for i in 1 2 3; do echo {number}; sleep 0.05; done"
        found[number] = inside(place, job, "sh", "-c", script).stdout

    threads = [threading.Thread(target=go, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: f"{n}\n".encode() * 3 for n in range(6)}


def test_the_record_says_who_ran_what_and_how_it_ended(place: Place) -> None:
    job = place.running("exec sleep 1000")
    inside(place, job, "sh", "-c", "exit 7")
    (begun,) = place.story(job, "exec")
    (ended,) = place.story(job, "exec_ended")
    assert begun["data"]["argv"] == ["sh", "-c", "exit 7"]
    assert begun["data"]["by"]
    assert (ended["data"]["exit_code"], ended["data"]["stream"]) == (7, begun["data"]["stream"])
    place.cancel(job)


def test_the_end_of_the_job_ends_it_and_nothing_outlives_it(place: Place) -> None:
    job = place.running("exec sleep 1000")
    stubborn = "trap '' TERM HUP INT; echo up"
    script = f"{stubborn}; (setsid {MARKED} &); while :; do sleep 1; done"
    begun = place.begun(
        "exec", job, "--", "sh", "-c", script, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with begun:
        assert begun.stdout is not None
        assert begun.stderr is not None
        assert begun.stdout.readline() == b"up\n"
        place.cancel(job)
        assert begun.wait(SECONDS) == -signal.SIGKILL
        assert begun.stderr.read() == f"{job} has ended, and this with it\n".encode()
    assert alive(MARK) == []


def test_a_killed_visitor_leaves_no_process_and_a_usable_terminal(place: Place, job: str) -> None:
    with person(place, "exec", "-t", job, "--", *SLEEP) as ada:
        before = ada.modes()
        ada.until_raw_signals_are_off()
        until(lambda: len(alive(MARK)) == 1)
        os.kill(ada.pid, signal.SIGKILL)
        until(lambda: ada.modes() == before)
        until(lambda: alive(MARK) == [])
        assert ada.ends() == -signal.SIGKILL
    assert place.wire().call("GET", f"/v1/jobs/{job}")["state"] == "running"


def test_a_closed_terminal_hangs_up(place: Place, job: str) -> None:
    with person(place, "exec", "-t", job, "--", *SLEEP) as ada:
        ada.until_raw_signals_are_off()
        until(lambda: len(alive(MARK)) == 1)
        ada.hang_up()
        until(lambda: alive(MARK) == [])


def test_jobs_that_do_not_run_are_refused_with_a_way_on(place: Place) -> None:
    job = place.running("exec sleep 1000")
    place.cancel(job)
    for verb in (("exec", job, "--", "true"), ("shell", job), ("forward", job, "80")):
        done = place.line(*verb)
        assert done.returncode == (1 if verb[0] == "forward" else 125)
        assert b"error[job-not-running]" in done.stderr
        assert f"gpulayer logs {job}".encode() in done.stderr


def test_a_usage_that_lacks_something_says_what(place: Place, job: str) -> None:
    assert b"no command to run in the job" in place.line("exec", job).stderr
    assert b"has no node 1" in place.line("exec", "--node", "1", job, "--", "true").stderr


@pytest.mark.parametrize("kind", ["agent", "supervisor", "plane"])
def test_whoever_dies_in_between_the_visitor_hears_and_nothing_is_left(kind: str) -> None:
    """The job goes on, but for its supervisor's death."""
    with Afar() as place:
        job = place.running("exec sleep 1000")
        with person(place, "exec", "-t", job, "--", *SLEEP) as ada:
            before = ada.modes()
            ada.until_raw_signals_are_off()
            until(lambda: len(alive(MARK)) == 1)
            slay(place.pid(kind))
            assert ada.ends() == 125
            assert ada.modes() == before
        until(lambda: alive(MARK) == [])


def test_the_values_of_secrets_are_not_in_the_record_but_in_the_output() -> None:
    with Here(LAB_TOKEN="correct-horse-battery") as place:
        job = place.running("exec sleep 1000", secret="LAB_TOKEN")
        done = inside(place, job, "sh", "-c", 'echo "$LAB_TOKEN" # correct-horse-battery')
        assert done.stdout == b"correct-horse-battery\n"
        told = json.dumps(place.wire().call("GET", f"/v1/jobs/{job}/events"))
        assert "correct-horse" not in told
        assert "[redacted:LAB_TOKEN]" in told


def test_only_the_owner_and_admins_may(tmp_path: object) -> None:
    with Afar() as place:
        job = place.running("exec sleep 1000")
        for role, code in (("admin", 0), ("operator", 4), ("submitter", 4), ("viewer", 4)):
            with place.person(role) as other:
                assert tried(other, job) == code, role


def tried(home: LocalHome, job: str) -> int:
    """The exit code of an attempt; 4 where it was not allowed."""
    done = home.typed(*GPULAYER, "exec", job, "--", "true")
    return 4 if b"error[not-allowed]" in done.stderr else int(done.returncode)


def until(there: Any) -> None:
    for _ in range(int(SECONDS / 0.01)):
        if there():
            return
        look_again()
    raise AssertionError("it never came")
