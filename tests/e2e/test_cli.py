"""The command line at its edges: exit codes, streams, terminals, and names that mean harm."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.local_home import SECONDS, LocalHome
from tests.support.person import Person

pytestmark = pytest.mark.e2e

GPULAYER = [sys.executable, "-m", "gpulayer"]
VERBS = {
    "ps": "ps -a",
    "status": "status fine",
    "logs": "logs fine",
    "events": "events fine",
    "why": "why fine",
    "workers": "workers",
    "doctor": "doctor",
    "plan": "plan -- true",
    "schema": "schema resources",
    "version": "version",
    "help": "help all",
    "completion": "completion bash",
}
"""Verbs whose answer is data: all of it on stdout, and nothing else."""


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome() as home:
        ask(home, "run", "--name", "fine", "--", "echo", "data")
        yield home


def ask(home: LocalHome, *words: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    how = {"stdin": subprocess.DEVNULL, "cwd": home.work, "env": home.environ, **how}
    if not {"stdout", "stderr"} & set(how):
        how["capture_output"] = True
    return subprocess.run([*GPULAYER, *words], timeout=SECONDS, **how)


def shell(home: LocalHome, line: str) -> subprocess.CompletedProcess[bytes]:
    """A line of bash in which `$G` is the command."""
    environ = {**home.environ, "G": " ".join(GPULAYER)}
    return subprocess.run(
        ["bash", "-c", line], cwd=home.work, env=environ, capture_output=True, timeout=SECONDS
    )


# --- exit codes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "--", "true"], 0),
        (["run", "--", "sh", "-c", "exit 1"], 1),
        (["run", "--", "sh", "-c", "exit 123"], 123),
        (["run", "--", "sh", "-c", "exit 124"], 124),
        (["run", "--", "sh", "-c", "exit 125"], 125),
        (["run", "--", "sh", "-c", "exit 255"], 255),
        (["run", "--timeout", "0.1", "--", "sleep", "60"], 124),
        (["run", "--gpus", "900", "--", "true"], 125),
        (["run", "--nope", "--", "true"], 125),
        (["run"], 125),
        (["run", "--secret", "NOT_SET_ANYWHERE", "--", "true"], 126),
        (["run", "--", "/"], 126),
        (["run", "--", "no-such-command"], 127),
        (["run", "--", "sh", "-c", "kill -TERM $$"], -signal.SIGTERM),
        (["run", "--", "sh", "-c", "kill -KILL $$"], -signal.SIGKILL),
        (["run", "--", "sh", "-c", "kill -INT $$"], -signal.SIGINT),
        (["wait", "nobody"], 125),
        (["nope"], 2),
        (["ps", "--nope"], 2),
        (["ps", "-n", "0"], 2),
        (["submit", "-f", "nowhere.json"], 2),
        (["submit", "--timeout", "2x", "--", "true"], 2),
        (["logs", "fine", "--stream", "nope"], 2),
        (["logs", "fine", "--grep", "("], 2),
        (["status", "nobody"], 3),
        (["logs", "nobody"], 3),
        (["cancel", "nobody"], 3),
        (["get", "fine"], 3),
        (["help", "nothing"], 3),
        (["result", "fine"], 1),
        (["plan", "--cpus", "60000", "--", "true"], 1),
        (["plan", "--", "true"], 0),
        (["completion", "tcsh"], 2),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_an_exit_code_means_what_the_table_says(
    home: LocalHome, words: list[str], code: int
) -> None:
    assert ask(home, *words).returncode == code


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "exit 125"], 125),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["no-such-command"], 127),
        (["true"], 0),
    ],
    ids=["own", "125", "killed", "missing", "fine"],
)
def test_waiting_and_following_end_as_the_job_did(
    home: LocalHome, command: list[str], code: int
) -> None:
    job = ask(home, "submit", "-q", "--", *command).stdout.decode().strip()
    assert ask(home, "wait", job).returncode == code
    assert ask(home, "logs", "-f", "--exit-code", job).returncode == code
    assert ask(home, "logs", "-f", job).returncode == 0


def test_waiting_for_several_is_1_when_any_failed(home: LocalHome) -> None:
    bad = ask(home, "submit", "-q", "--", "sh", "-c", "exit 9").stdout.decode().strip()
    assert ask(home, "wait", "fine", bad).returncode == 1
    assert ask(home, "wait", "fine", "fine").returncode == 0


def test_125_is_never_ambiguous_in_json(home: LocalHome) -> None:
    done = ask(home, "wait", "nobody", "--json")
    assert done.returncode == 125
    assert json.loads(done.stdout)["error"]["code"] == "job-not-found"


# --- streams --------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_data_goes_to_stdout_and_nothing_else_does(home: LocalHome, verb: str) -> None:
    done = ask(home, *VERBS[verb].split())
    assert done.stdout
    assert done.stderr == b""
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("words", ["status nobody", "run -- no-such-command", "nope", "wait x"])
def test_talk_goes_to_stderr_alone(home: LocalHome, words: str) -> None:
    done = ask(home, *words.split())
    assert done.stdout == b""
    assert done.stderr.startswith(b"error[")
    assert b"Traceback" not in done.stderr


def test_run_says_nothing_of_its_own_in_a_pipe(home: LocalHome) -> None:
    done = ask(home, "run", "--", "sh", "-c", "printf out; printf err >&2; exit 4")
    assert (done.stdout, done.stderr, done.returncode) == (b"out", b"err", 4)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["ps -a", "status fine", "logs fine", "help", "run -- true"])
def test_a_closed_stream_harms_nothing(home: LocalHome, words: str, closed: str) -> None:
    done = shell(home, f"$G {words} {closed}")
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert b"error[" not in done.stderr


@pytest.mark.parametrize("words", ["nope", "status nobody"])
def test_an_error_with_nobody_to_read_it_keeps_its_code(home: LocalHome, words: str) -> None:
    expected = ask(home, *words.split()).returncode
    assert shell(home, f"$G {words} 2>&-").returncode == expected


@pytest.mark.parametrize("words", ["help all", "schema", "completion bash", "ps -a --json"])
def test_a_reader_that_leaves_is_no_error(home: LocalHome, words: str) -> None:
    done = shell(home, f"$G {words} | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.strip() in (b"0", b"141")
    assert done.stderr == b""


def test_a_full_device_is_said(home: LocalHome) -> None:
    done = shell(home, "$G schema > /dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error[disk-full]")


def test_a_terminal_that_lacks_a_character_gets_it_escaped(home: LocalHome) -> None:
    ask(home, "submit", "--label", "k=v", "--", "echo", "é")
    environ = {**home.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = ask(home, "status", "last", env=environ)
    assert done.returncode == 0
    assert rb"\xe9" in done.stdout


# --- terminals ------------------------------------------------------------------------------


def screen(home: LocalHome, *words: str, cols: int = 80, **environ: str) -> str:
    with Person([*GPULAYER, *words], {**home.environ, **environ}, home.work, cols=cols) as person:
        person.ends()
        return person.screen.decode()


@pytest.mark.parametrize("words", ["ps -a", "why -q last", "why last", "status last", "workers"])
def test_tables_fit_into_80_columns(home: LocalHome, words: str) -> None:
    long = "a-job-with-a-name-that-is-as-long-as-a-name-may-be"
    told = ask(home, "submit", "--name", long, "--cpus", "60000", "--memory", "90T", "--", "true")
    assert told.returncode == 0
    shown = screen(home, *words.split(), NO_COLOR="1")
    ask(home, "cancel", "last")
    lines = shown.splitlines()
    assert lines
    if words != "status last":  # its values are for reading, not for a table
        assert max(map(len, lines)) <= 80, max(lines, key=len)


def test_a_reason_is_wrapped_between_words(home: LocalHome) -> None:
    ask(home, "submit", "--gpus", "900", "--", "true")
    wide = screen(home, "why", "last", cols=1000, NO_COLOR="1", TERM="xterm")
    narrow = screen(home, "why", "last", cols=60, NO_COLOR="1", TERM="xterm")
    ask(home, "cancel", "last")
    assert set(wide.split()) == set(narrow.split())
    assert max(map(len, narrow.splitlines())) <= 60


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False)],
)
def test_colours_are_for_terminals_that_want_them(
    home: LocalHome, environ: dict[str, str], coloured: bool
) -> None:
    assert ("\x1b[" in screen(home, "ps", "-a", **{"TERM": "xterm", **environ})) is coloured


def test_on_a_terminal_run_says_what_it_does(home: LocalHome) -> None:
    shown = screen(home, "run", "--name", "told", "--", "sh", "-c", "exit 3", NO_COLOR="1")
    assert re.search(r"job told-\w{8}", shown)
    assert re.search(r"told-\w{8} failed in \S+ s, exit code 3", shown)


def test_following_leaves_the_job_alone_on_ctrl_c(home: LocalHome) -> None:
    job = ask(home, "submit", "-q", "--", "sh", "-c", "echo begun; sleep 100").stdout.decode()
    with Person([*GPULAYER, "logs", "-f", job.strip()], home.environ, home.work) as person:
        person.sees("begun")
        person.types("\x03")
        person.sees("goes on; end it: gpulayer cancel")
        assert person.ends() == 130
    home.until(lambda: ask(home, "status", "-q", job.strip()).stdout == b"running\n")
    ask(home, "cancel", "--now", job.strip())
    assert ask(home, "wait", job.strip()).returncode == 137


# --- harm -----------------------------------------------------------------------------------

COMMANDS = "\x1b]0;owned\x07\x1b[2J\x1b[31m\u202eevil\r\x9b31m"


@pytest.mark.parametrize("words", ["ps -a", "status last", "why last", "events last", "plan"])
def test_what_a_job_says_of_itself_cannot_command_the_terminal(home: LocalHome, words: str) -> None:
    command = ["--", "sh", "-c", "exit 3", COMMANDS]
    ask(home, "submit", *command)
    ask(home, "wait")
    asked = [*words.split(), *(command if words == "plan" else [])]
    shown = ask(home, *asked).stdout.decode()
    assert not set(shown) & set("\x1b\x07\x9b\u202e\r")


def test_an_unknown_word_cannot_command_the_terminal(home: LocalHome) -> None:
    for words in ([COMMANDS], ["status", COMMANDS], ["run", "--timeout", COMMANDS, "--", "true"]):
        told = ask(home, *words).stderr.decode()
        assert told.startswith("error[")
        assert not set(told) & set("\x1b\x07\x9b\u202e\r")


def test_a_name_that_is_no_text_is_run_as_it_is(home: LocalHome) -> None:
    done = subprocess.run(
        [*map(os.fsencode, GPULAYER), b"run", b"--", b"printf", b"%s", b"a\xff\xfe"],
        cwd=home.work,
        env=home.environ,
        capture_output=True,
        timeout=SECONDS,
    )
    assert (done.stdout, done.returncode) == (b"a\xff\xfe", 0)
    assert ask(home, "status", "last").returncode == 0


def test_on_a_terminal_a_job_that_waits_says_for_what(home: LocalHome) -> None:
    words = ["run", "--on-unschedulable", "queue", "--cpus", "60000", "--", "true"]
    with Person([*GPULAYER, *words], home.environ, home.work) as person:
        person.sees("waits: ")
        person.sees("60000 cores")
        person.types("\x03")
        assert person.ends() == 130
