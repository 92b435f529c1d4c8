"""A person at a terminal cannot tell `gpulayer run -- LINE` from `LINE`."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_home import RUN, SECONDS, LocalHome
from tests.support.person import Person

pytestmark = pytest.mark.e2e

CTRL_C, CTRL_D, CTRL_Z = "\x03", "\x04", "\x1a"
PROMPT = "ready> "
QUIETLY = [*RUN[:-1], "-q", "--"]


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    with LocalHome(TERM="xterm", PS1=PROMPT, PS2="", HISTFILE="/dev/null") as home:
        home.run("true", check=0)
        programs = home.folder / "bin"
        programs.mkdir()
        (programs / "g").write_text(f'#!/bin/sh\nexec {shlex.join(QUIETLY)} "$@"\n')
        (programs / "g").chmod(0o755)
        home.environ["PATH"] = f"{programs}:{home.environ['PATH']}"
        yield home


def at(home: LocalHome, *command: str, **size: int) -> Person:
    """Somebody who types `gpulayer run -- COMMAND`."""
    return Person([*RUN, *command], home.environ, home.work, **size)


def bare(home: LocalHome, *command: str, **size: int) -> Person:
    return Person(command, home.environ, home.work, **size)


def shell(home: LocalHome) -> Person:
    """Somebody at an interactive shell, where `g LINE` is `gpulayer run -q -- LINE`."""
    person = Person(["bash", "--norc", "--noprofile", "-i"], home.environ, home.work)
    person.sees(PROMPT)
    return person


def python(code: str) -> list[str]:
    return [sys.executable, "-u", "-c", code]


TERMINALS = "import os; print([os.isatty(n) for n in (0, 1, 2)]); open('/dev/tty').close()"
ALL_BYTES = "import os; os.write(1, bytes(range(256)))"
SIZE = "import os; print(os.get_terminal_size(0), os.get_terminal_size(1))"


@pytest.mark.parametrize("code", [TERMINALS, ALL_BYTES, SIZE], ids=["isatty", "bytes", "size"])
def test_the_screen_shows_what_the_bare_line_shows(home: LocalHome, code: str) -> None:
    with bare(home, *python(code), rows=31, cols=101) as alone:
        expected = alone.ends()
    with bare(home, *QUIETLY, *python(code), rows=31, cols=101) as ours:
        assert ours.ends() == expected
    assert ours.screen == alone.screen


def test_a_question_is_asked_and_answered(home: LocalHome) -> None:
    with at(home, *python("print('hello ' + input('name? '))")) as person:
        person.sees("name? ")
        person.types("Ada\n")
        person.sees("hello Ada")
        assert person.ends() == 0


def test_a_password_is_not_shown(home: LocalHome) -> None:
    code = "import getpass; print(len(getpass.getpass('secret: ')))"
    with at(home, *python(code)) as person:
        person.sees("secret: ")
        person.types("abcdefg\n")
        person.sees("7")
        assert person.ends() == 0
    assert b"abcdefg" not in person.screen


def test_end_of_input_is_a_key(home: LocalHome) -> None:
    with at(home, "cat") as person:
        wait_for_start(person)
        person.types("a line\n")
        person.sees("a line\r\na line")
        person.types(CTRL_D)
        assert person.ends() == 0


def test_a_new_window_size_arrives(home: LocalHome) -> None:
    code = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"
        "print('waiting')\n"
        "signal.sigwait([signal.SIGWINCH])\n"
        "print('now', os.get_terminal_size().columns)"
    )
    with at(home, *python(code)) as person:
        person.sees("waiting")
        person.resizes(40, 132)
        person.sees("now 132")
        assert person.ends() == 0


def test_ctrl_c_reaches_the_jobs_own_handler(home: LocalHome) -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, lambda *a: sys.exit(9))\n"
        "print('waiting')\n"
        "signal.pause()"
    )
    with at(home, *python(code)) as person:
        person.sees("waiting")
        person.types(CTRL_C)
        assert person.ends() == 9


def test_a_client_dies_by_the_signal_that_ended_its_job(home: LocalHome) -> None:
    with at(home, "sh", "-c", "echo waiting; exec sleep 100") as person:
        person.sees("waiting")
        person.types(CTRL_C)
        assert person.ends() == -signal.SIGINT


def test_a_job_that_ctrl_c_ended_is_cancelled_and_not_tried_again(home: LocalHome) -> None:
    options = [*QUIETLY[:-1], "--name", "ended-by-hand", "--retries", "3", "--"]
    with bare(home, *options, "sh", "-c", "echo waiting; exec sleep 100") as person:
        person.sees("waiting")
        person.types(CTRL_C)
        assert person.ends() == -signal.SIGINT
    path = "/v1/jobs/ended-by-hand?wait=60&until=finished"
    job = home.wire().call("GET", path, park=SECONDS)
    assert (job["state"], job["exit_code"], job["attempt"]) == ("cancelled", 130, 1)


def test_three_ctrl_c_within_two_seconds_kill(home: LocalHome) -> None:
    with at(home, "sh", "-c", "trap '' INT; echo waiting; sleep 100; sleep 100") as person:
        person.sees("waiting")
        person.types(CTRL_C)
        while person.shows("^C"):  # on a busy machine three may take longer than two seconds
            person.types(CTRL_C)
        assert person.ends() == -signal.SIGKILL


def test_in_raw_mode_ctrl_c_is_a_byte(home: LocalHome) -> None:
    code = "import os, tty\ntty.setraw(0); print('raw', flush=True)\nprint(repr(os.read(0, 1)))"
    with at(home, *python(code)) as person:
        person.sees("raw")
        person.until_raw_signals_are_off()
        person.types(CTRL_C)
        person.sees(r"b'\x03'")
        assert person.ends() == 0


def test_ctrl_c_ends_a_loop_of_the_shell(home: LocalHome) -> None:
    with shell(home) as person:
        person.types("for i in 1 2 3; do g sh -c 'echo turn $0; exec sleep 100' $i; done\n")
        person.sees("turn 1")
        person.types(CTRL_C)
        person.sees(PROMPT)
        person.types("echo rc=$?\n")
        person.sees("rc=130")
        assert b"turn 2" not in person.screen


def test_ctrl_z_stops_and_fg_goes_on(home: LocalHome) -> None:
    with shell(home) as person:
        person.types("g sh -c 'echo wait\"\"ing; read answer; echo got $answer'\n")
        person.sees("waiting")
        person.types(CTRL_Z)
        person.sees("Stopped")
        person.sees(PROMPT)
        person.types("echo rc=$?\n")
        person.sees("rc=148")
        person.sees(PROMPT)
        person.types("fg\n")
        person.sees("fg")
        person.types("yes\n")
        person.sees("got yes")
        person.sees(PROMPT)


def test_started_in_the_background_it_runs_and_leaves_the_terminal_alone(home: LocalHome) -> None:
    with shell(home) as person:
        before = person.modes()
        person.types("g sh -c 'test -t 1 && echo a $((6 * 7)) screen' &\n")
        person.sees("a 42 screen")
        person.types("wait $!; echo rc=$?\n")
        person.sees("rc=0")
        person.sees(PROMPT)
        assert person.modes() == before


@pytest.mark.parametrize(
    "line",
    ["g sh -c 'exit 3'", "g sh -c 'kill -9 $$'", "g nosuchcommand", "g stty raw -echo"],
)
def test_the_terminal_is_given_back_as_it_was(home: LocalHome, line: str) -> None:
    script = f"stty -g > before; {line}; stty -g > after"
    with bare(home, "sh", "-c", script) as person:
        assert person.ends() == 0
    assert (home.work / "after").read_text() == (home.work / "before").read_text()


def test_a_terminal_that_closes_leaves_the_job_running(home: LocalHome) -> None:
    marker = home.folder / "went-on"
    go = home.folder / "go"
    os.mkfifo(go)
    with at(home, "sh", "-c", f"echo waiting; read x < {go}; echo late; touch {marker}") as person:
        person.sees("waiting")
        person.hang_up()
        home.until(lambda: not alive(person.pid))
    go.write_text("on\n")
    home.until(marker.exists)


def test_only_what_is_a_terminal_is_mirrored(home: LocalHome) -> None:
    out = home.folder / "out"
    code = shlex.join(python("import os; print([os.isatty(n) for n in (0, 1, 2)])"))
    with bare(home, "sh", "-c", f"{shlex.join(RUN)} {code} > {out}") as person:
        assert person.ends() == 0
    assert out.read_text() == "[False, False, True]\n"


def test_piped_input_keeps_the_terminal_for_keys(home: LocalHome) -> None:
    code = "import sys; data = sys.stdin.read(); print(data + open('/dev/tty').readline())"
    line = f"echo piped | {shlex.join(RUN)} {shlex.join(python(code))}"
    with bare(home, "sh", "-c", line) as person:
        wait_for_start(person)
        person.types("typed\n")
        person.sees("piped")
        person.sees("typed")
        assert person.ends() == 0


def test_the_interpreter_is_said(home: LocalHome) -> None:
    with at(home, "python3", "-c", "print('done')") as person:
        person.sees("python ")
        person.sees("done")
        assert person.ends() == 0


def wait_for_start(person: Person) -> None:
    """Until the client reads keys for the job: from then on it has the terminal."""
    person.sees("job ")
    person.until_raw()


def alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_table_of_modes_is_json() -> None:
    """What travels as the terminal's settings must survive JSON."""
    from gpulayer.sdk.terminal import Screen

    master, slave = os.openpty()
    screen = Screen(slave)
    settings = screen.settings()
    assert json.loads(json.dumps(settings)) == settings
    screen.close()
    os.close(master)
